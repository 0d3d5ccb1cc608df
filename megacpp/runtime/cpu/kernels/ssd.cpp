// SPDX-License-Identifier: Apache-2.0
// ssd by matrix products on chunks, straight from and to the [b, s, h, p] and [b, s, g, n] layouts.
#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/kernels/scratch.h"
#include "megacpp/runtime/cpu/kernels/ssd_tasks.h"
#include "megacpp/runtime/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

enum Operand : size_t { kX, kDt, kA, kB, kC };

struct Plan {
  SsdShape shape;
  int64_t per_worker;  // floats
  int64_t scores, mixing, pairs, factors, dt, whole, row, added, state, sums;
};

Plan make_plan(const SsdShape& v) {
  ScratchPlan s;
  Plan plan{.shape = v,
            .per_worker = 0,
            .scores = s.book(v.length * v.length),
            .mixing = s.book(v.length * v.length),
            .pairs = s.book(packed_row(v.length)),
            .factors = s.book(v.length),
            .dt = s.book(v.length),
            .whole = s.book(v.block_heads()),
            .row = s.book(v.block_columns()),
            .added = s.book(v.length * v.block_columns()),
            .state = s.book(v.state * v.block_columns()),
            .sums = s.book(2 * v.length)};
  plan.per_worker = s.floats();
  return plan;
}

class TaskRun {
 public:
  TaskRun(const Plan& plan, const KernelArgs& args, int64_t index, float* scratch)
      : plan_(plan), v_(plan.shape), args_(args), task_(ssd_task(v_, index)), scratch_(scratch) {
    columns_ = task_.heads * v_.head_dim;
    // Only the lower triangle is written from here on.
    row_fill(0.0F, part(plan_.mixing), v_.length * v_.length);
  }

  void run() {
    for (int64_t chunk = 0; chunk < v_.chunks; ++chunk) {
      span_ = ssd_span(v_, task_, chunk);
      scores();
      if (chunk > 0) from_state();
      for (int64_t h = 0; h < task_.heads; ++h) inside(h, chunk > 0);
      if (chunk + 1 < v_.chunks) into_state(chunk > 0);
    }
  }

 private:
  float* part(int64_t offset) const { return scratch_ + offset; }
  const float* b_rows() const { return args_.in(kB) + span_.b; }
  const float* c_rows() const { return args_.in(kC) + span_.b; }

  SsdDecay decay(int64_t h) const {
    return {args_.in(kDt) + span_.dt + h, v_.heads, args_.in(kA)[task_.head + h], span_.rows,
            reinterpret_cast<double*>(part(plan_.sums))};
  }

  // C B^T [i, j]
  void scores() {
    gemm({.transpose_b = true,
          .m = span_.rows,
          .n = span_.rows,
          .k = v_.state,
          .a = c_rows(),
          .lda = v_.b_stride(),
          .b = b_rows(),
          .ldb = v_.b_stride(),
          .c = part(plan_.scores),
          .ldc = v_.length});
  }

  // y = C S of the chunk's start, for all heads; each head still lacks its decay from the start.
  void from_state() {
    gemm({.m = span_.rows,
          .n = columns_,
          .k = v_.state,
          .a = c_rows(),
          .lda = v_.b_stride(),
          .b = part(plan_.state),
          .ldb = columns_,
          .c = args_.out(0) + span_.x,
          .ldc = v_.x_stride()});
  }

  void inside(int64_t h, bool has_state) {
    float* y = args_.out(0) + span_.x + h * v_.head_dim;
    if (has_state) {
      decay_from_start(decay(h), part(plan_.factors));
      scale_rows(part(plan_.factors), y, v_.x_stride(), y, v_.x_stride(), span_.rows, v_.head_dim);
    }
    mix(h);
    gemm({.m = span_.rows,
          .n = v_.head_dim,
          .k = span_.rows,
          .a = part(plan_.mixing),
          .lda = v_.length,
          .b = args_.in(kX) + span_.x + h * v_.head_dim,
          .ldb = v_.x_stride(),
          .beta = has_state ? 1.0F : 0.0F,
          .c = y,
          .ldc = v_.x_stride()});
  }

  // mixing = scores * decay from j to i * dt_j
  void mix(int64_t h) {
    decay_of_pairs(decay(h), part(plan_.pairs));
    float* dt = part(plan_.dt);
    for (int64_t j = 0; j < span_.rows; ++j) dt[j] = args_.in(kDt)[span_.dt + h + j * v_.heads];
    for (int64_t i = 0; i < span_.rows; ++i) {
      float* row = part(plan_.mixing) + i * v_.length;
      row_mul(part(plan_.scores) + i * v_.length, part(plan_.pairs) + packed_row(i), row, i + 1);
      row_mul(row, dt, row, i + 1);
    }
  }

  // S = decay over the chunk * S + B^T (dt * decay to the end * x)
  void into_state(bool has_state) {
    for (int64_t h = 0; h < task_.heads; ++h) {
      decay_of_added(decay(h), part(plan_.factors));
      scale_rows(part(plan_.factors), args_.in(kX) + span_.x + h * v_.head_dim, v_.x_stride(),
                 part(plan_.added) + h * v_.head_dim, columns_, span_.rows, v_.head_dim);
      decay_from_start(decay(h), part(plan_.factors));
      part(plan_.whole)[h] = part(plan_.factors)[span_.rows - 1];
    }
    if (has_state) decay_state(part(plan_.whole), task_, v_, part(plan_.row), part(plan_.state));
    gemm({.transpose_a = true,
          .m = v_.state,
          .n = columns_,
          .k = span_.rows,
          .a = b_rows(),
          .lda = v_.b_stride(),
          .b = part(plan_.added),
          .ldb = columns_,
          .beta = has_state ? 1.0F : 0.0F,
          .c = part(plan_.state),
          .ldc = columns_});
  }

  const Plan& plan_;
  const SsdShape& v_;
  const KernelArgs& args_;
  SsdTask task_;
  SsdSpan span_ = {};
  int64_t columns_;
  float* scratch_;
};

}  // namespace

Kernel ssd_kernel() {
  return {.op = "ssd", .prepare = [](const ops::NodeView& view, int threads) {
            const Plan plan = make_plan(ssd_shape(view, threads));
            const int64_t bytes = plan.per_worker * static_cast<int64_t>(sizeof(float)) * threads;
            return Prepared{[plan](const KernelArgs& args) {
                              args.pool.for_each(plan.shape.tasks(), [&](int64_t index, int worker) {
                                TaskRun(plan, args, index, args.scratch() + worker * plan.per_worker).run();
                              });
                            },
                            bytes};
          }};
}

}  // namespace megacpp::runtime::cpu
