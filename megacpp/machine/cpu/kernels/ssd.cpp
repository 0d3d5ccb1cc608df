// SPDX-License-Identifier: Apache-2.0
// ssd by matrix products on chunks, straight from and to the [b, s, h, p] and [b, s, g, n] layouts.
#include "megacpp/machine/cpu/gemm.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/scratch.h"
#include "megacpp/machine/cpu/kernels/ssd_walk.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

struct SsdPlan {
  SsdShape shape;
  SsdWalkPlan walk;
  int64_t state;       // [n, columns]
  int64_t per_worker;  // floats
};

SsdPlan make_plan(const SsdShape& v) {
  ScratchPlan scratch;
  SsdPlan plan{.shape = v,
               .walk = plan_ssd_walk(v, scratch),
               .state = scratch.book(v.state * v.block_columns()),
               .per_worker = 0};
  plan.per_worker = scratch.floats();
  return plan;
}

class TaskRun : SsdWalk {
 public:
  TaskRun(const SsdPlan& plan, const KernelArgs& args, int64_t index, float* scratch)
      : SsdWalk(plan.shape, plan.walk, args, index, scratch), walk_(plan.walk), state_(part(plan.state)) {}

  void run() {
    for (int64_t chunk = 0; chunk < v_.chunks; ++chunk) {
      enter(chunk);
      fill_scores();
      // y = C S of the chunk's start, for all heads; each head still lacks its decay from the start.
      if (has_previous_) read_state(c_rows(), state_, args_.out(0) + span_.x);
      for (int64_t h = 0; h < task_.heads; ++h) inside(h);
      if (has_next_) advance_state(state_);
    }
  }

 private:
  void inside(int64_t h) {
    float* y = args_.out(0) + head_at(h);
    if (has_previous_) {
      fill_from_start(h);
      scale_rows(part(walk_.from_start), y, v_.x_stride(), y, v_.x_stride(), span_.rows, v_.head_dim);
    }
    mix(h);
    gemm({.m = span_.rows,
          .n = v_.head_dim,
          .k = span_.rows,
          .a = part(walk_.mixing),
          .lda = v_.length,
          .b = args_.in(kX) + head_at(h),
          .ldb = v_.x_stride(),
          .beta = has_previous_ ? 1.0F : 0.0F,
          .c = y,
          .ldc = v_.x_stride()});
  }

  // mixing = scores * decay from j to i * dt_j
  void mix(int64_t h) {
    fill_pairs(h);
    fill_dt(h);
    for (int64_t i = 0; i < span_.rows; ++i) {
      float* row = part(walk_.mixing) + i * v_.length;
      row_mul(part(walk_.scores) + i * v_.length, part(walk_.pairs) + packed_row(i), row, i + 1);
      row_mul(row, part(walk_.dt), row, i + 1);
    }
  }

  const SsdWalkPlan& walk_;
  float* state_;
};

}  // namespace

Kernel ssd_kernel() {
  return {.op = "ssd", .prepare = [](const ops::NodeView& view, int threads) {
            const SsdPlan plan = make_plan(ssd_shape(view, threads));
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
