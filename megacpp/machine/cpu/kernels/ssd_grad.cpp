// SPDX-License-Identifier: Apache-2.0
// Two walks per task: forward to find the state at the start of every chunk, backward with the cotangent of the state.
// dB and dC sum over heads: where a group is cut into several blocks, each block writes its own copy in the workspace
// and the copies are added in order.
#include <algorithm>

#include "megacpp/machine/cpu/gemm.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/ssd_grad_plan.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

class GradTaskRun : SsdWalk {
 public:
  GradTaskRun(const SsdGradPlan& plan, const KernelArgs& args, int64_t index, float* scratch)
      : SsdWalk(plan.shape, plan, args, index, scratch), plan_(plan) {
    const int64_t copy = task_.block * v_.batch * v_.seq * v_.b_stride();
    db_ = v_.head_blocks == 1 ? args_.out(kB) : args_.scratch() + plan_.db + copy;
    dc_ = v_.head_blocks == 1 ? args_.out(kC) : args_.scratch() + plan_.dc + copy;
    row_fill(0.0F, da(), task_.heads);
  }

  void run() {
    for (int64_t chunk = 0; chunk + 1 < v_.chunks; ++chunk) {
      enter(chunk);
      if (has_previous_) std::copy(state(chunk), state(chunk + 1), state(chunk + 1));
      advance_state(state(chunk + 1));
    }
    for (int64_t chunk = v_.chunks - 1; chunk >= 0; --chunk) {
      enter(chunk);
      fill_scores();
      row_fill(0.0F, part(plan_.dscores), v_.length * v_.length);
      // dx = B dS for all heads; each head still lacks its decay to the end.
      if (has_next_) read_state(b_rows(), part(plan_.dstate), args_.out(kX) + span_.x);
      for (int64_t h = 0; h < task_.heads; ++h) head(h);
      projections();
      // Cotangent of the state at this chunk's start.
      if (has_previous_) carry_state(c_rows(), part(plan_.dy_decayed), has_next_, part(plan_.dstate));
    }
  }

 private:
  float* da() const { return args_.scratch() + plan_.da + task_.batch * v_.heads + task_.head; }
  float* state(int64_t chunk) const { return part(plan_.states) + chunk * v_.state * columns_; }

  void head(int64_t h) {
    fill_dt(h);
    fill_pairs(h);
    fill_from_start(h);
    through_next(h);
    through_previous(h);
    inside_dx(h);
    inside_dscores(h);
    finish_dt(h);
  }

  // dx through the state at the chunk's end, and what each position's share in it is worth: in [j].
  void through_next(int64_t h) {
    row_fill(0.0F, part(plan_.in), span_.rows);
    if (!has_next_) return;
    fill_x_added(h);
    const float* to_end = part(plan_.pairs) + packed_row(span_.rows - 1);
    const float* x = args_.in(kX) + head_at(h);
    float* dx = args_.out(kX) + head_at(h);
    for (int64_t j = 0; j < span_.rows; ++j) {
      const int64_t at = j * v_.x_stride();
      row_scale(to_end[j], dx + at, dx + at, v_.head_dim);
      part(plan_.in)[j] = part(plan_.dt)[j] * row_dot(x + at, dx + at, v_.head_dim);
    }
  }

  // dC through the state at the chunk's start, and what each position reads from it is worth: out [i].
  void through_previous(int64_t h) {
    row_fill(0.0F, part(plan_.out), span_.rows);
    if (!has_previous_) return;
    float* dy = part(plan_.dy_decayed) + h * v_.head_dim;
    scale_rows(part(plan_.from_start), args_.in(kDy) + head_at(h), v_.x_stride(), dy, columns_, span_.rows,
               v_.head_dim);
    float* read = part(plan_.read);
    gemm({.transpose_b = true,
          .m = span_.rows,
          .n = v_.state,
          .k = v_.head_dim,
          .a = dy,
          .lda = columns_,
          .b = state(chunk_) + h * v_.head_dim,
          .ldb = columns_,
          .c = read,
          .ldc = v_.state});
    for (int64_t i = 0; i < span_.rows; ++i) {
      const float* row = read + i * v_.state;
      part(plan_.out)[i] = row_dot(c_rows() + i * v_.b_stride(), row, v_.state);
      float* dc = dc_ + span_.b + i * v_.b_stride();
      if (h == 0) {
        std::copy(row, row + v_.state, dc);
      } else {
        row_add(dc, row, dc, v_.state);
      }
    }
  }

  // dx += (scores * decay)^T dy
  void inside_dx(int64_t h) {
    for (int64_t i = 0; i < span_.rows; ++i)
      row_mul(part(plan_.scores) + i * v_.length, part(plan_.pairs) + packed_row(i), part(plan_.mixing) + i * v_.length,
              i + 1);
    gemm({.transpose_a = true,
          .m = span_.rows,
          .n = v_.head_dim,
          .k = span_.rows,
          .a = part(plan_.mixing),
          .lda = v_.length,
          .b = args_.in(kDy) + head_at(h),
          .ldb = v_.x_stride(),
          .beta = has_next_ ? 1.0F : 0.0F,
          .c = args_.out(kX) + head_at(h),
          .ldc = v_.x_stride()});
  }

  // dscores += dy x^T * decay * dt. A log decay at k is crossed by the pairs j < k <= i: walking i down, `suffix` [j]
  // is the sum over i >= k.
  void inside_dscores(int64_t h) {
    gemm({.transpose_b = true,
          .m = span_.rows,
          .n = span_.rows,
          .k = v_.head_dim,
          .a = args_.in(kDy) + head_at(h),
          .lda = v_.x_stride(),
          .b = args_.in(kX) + head_at(h),
          .ldb = v_.x_stride(),
          .c = part(plan_.dmixing),
          .ldc = v_.length});
    float* suffix = part(plan_.suffix);
    row_fill(0.0F, suffix, span_.rows);
    for (int64_t i = span_.rows - 1; i >= 0; --i) {
      float* row = part(plan_.dmixing) + i * v_.length;
      float* sum = part(plan_.dscores) + i * v_.length;
      row_mul(row, part(plan_.pairs) + packed_row(i), row, i + 1);
      row_mul(row, part(plan_.dt), row, i + 1);
      row_add(sum, row, sum, i + 1);
      row_mul_add(part(plan_.scores) + i * v_.length, row, suffix, i + 1);
      part(plan_.dlog_decay)[i] = row_sum(suffix, i);
    }
  }

  // Completes the cotangents of the log decays, then ddt, dA and the factor dt of dx.
  void finish_dt(int64_t h) {
    double before = over_chunk(h), after = 0;  // in of earlier positions; out of this and later ones
    for (int64_t k = 0; k < span_.rows; ++k) {
      part(plan_.dlog_decay)[k] += static_cast<float>(before);
      before += static_cast<double>(part(plan_.in)[k]);
    }
    double da_sum = 0;
    const float rate = args_.in(kA)[task_.head + h];
    for (int64_t k = span_.rows - 1; k >= 0; --k) {
      after += static_cast<double>(part(plan_.out)[k]);
      const float dlog = part(plan_.dlog_decay)[k] + static_cast<float>(after), dt = part(plan_.dt)[k];
      da_sum += static_cast<double>(dlog) * static_cast<double>(dt);
      const int64_t at = head_at(h) + k * v_.x_stride();
      float* dx = args_.out(kX) + at;
      args_.out(kDt)[span_.dt + h + k * v_.heads] = rate * dlog + row_dot(args_.in(kX) + at, dx, v_.head_dim);
      row_scale(dt, dx, dx, v_.head_dim);
    }
    da()[h] += static_cast<float>(da_sum);
  }

  // What the state carried over the whole chunk is worth.
  double over_chunk(int64_t h) const {
    if (!has_previous_ || !has_next_) return 0;
    double sum = 0;
    for (int64_t n = 0; n < v_.state; ++n) {
      const int64_t at = n * columns_ + h * v_.head_dim;
      sum += static_cast<double>(row_dot(state(chunk_) + at, part(plan_.dstate) + at, v_.head_dim));
    }
    return sum * static_cast<double>(part(plan_.whole)[h]);
  }

  // dC += dscores B; dB = x_added dS^T + dscores^T C
  void projections() {
    gemm({.m = span_.rows,
          .n = v_.state,
          .k = span_.rows,
          .a = part(plan_.dscores),
          .lda = v_.length,
          .b = b_rows(),
          .ldb = v_.b_stride(),
          .beta = has_previous_ ? 1.0F : 0.0F,
          .c = dc_ + span_.b,
          .ldc = v_.b_stride()});
    if (has_next_)
      gemm({.transpose_b = true,
            .m = span_.rows,
            .n = v_.state,
            .k = columns_,
            .a = part(plan_.x_added),
            .lda = columns_,
            .b = part(plan_.dstate),
            .ldb = columns_,
            .c = db_ + span_.b,
            .ldc = v_.b_stride()});
    gemm({.transpose_a = true,
          .m = span_.rows,
          .n = v_.state,
          .k = span_.rows,
          .a = part(plan_.dscores),
          .lda = v_.length,
          .b = c_rows(),
          .ldb = v_.b_stride(),
          .beta = has_next_ ? 1.0F : 0.0F,
          .c = db_ + span_.b,
          .ldc = v_.b_stride()});
  }

  const SsdGradPlan& plan_;
  float* db_;
  float* dc_;
};

void add_copies(const KernelArgs& args, const float* copies, float* out, const SsdShape& v) {
  constexpr int64_t kGrain = 4096;
  const int64_t count = v.batch * v.seq * v.b_stride();
  args.pool.parallel_for(count, kGrain, [&](int64_t begin, int64_t end, int) {
    std::copy(copies + begin, copies + end, out + begin);
    for (int64_t block = 1; block < v.head_blocks; ++block)
      row_add(out + begin, copies + block * count + begin, out + begin, end - begin);
  });
}

void run_ssd_grad(const SsdGradPlan& plan, const KernelArgs& args) {
  const SsdShape& v = plan.shape;
  args.pool.for_each(v.tasks(), [&](int64_t index, int worker) {
    GradTaskRun(plan, args, index, args.scratch() + plan.workers + worker * plan.per_worker).run();
  });
  row_fill(0.0F, args.out(SsdWalk::kA), v.heads);
  for (int64_t b = 0; b < v.batch; ++b)
    row_add(args.out(SsdWalk::kA), args.scratch() + plan.da + b * v.heads, args.out(SsdWalk::kA), v.heads);
  if (v.head_blocks == 1) return;
  add_copies(args, args.scratch() + plan.db, args.out(SsdWalk::kB), v);
  add_copies(args, args.scratch() + plan.dc, args.out(SsdWalk::kC), v);
}

}  // namespace

Kernel ssd_grad_kernel() {
  return {.op = "ssd_grad", .prepare = [](const ops::NodeView& view, int threads) {
            const SsdGradPlan plan = plan_ssd_grad(view, threads);
            return Prepared{[plan](const KernelArgs& args) { run_ssd_grad(plan, args); }, plan.workspace_bytes};
          }};
}

}  // namespace megacpp::runtime::cpu
