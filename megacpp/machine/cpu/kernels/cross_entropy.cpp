// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kChunk = 1024;  // elements worked on while they are in the first-level cache
constexpr int64_t kGrainElements = 4096;

float log_sum_exp(const float* row, int64_t width) {
  alignas(64) float discarded[kChunk];
  const float top = row_max_value(row, width);
  double sum = 0;
  for (int64_t c = 0; c < width; c += kChunk)
    sum += static_cast<double>(row_exp_sum(row + c, top, discarded, std::min(kChunk, width - c)));
  return top + static_cast<float>(std::log(sum));
}

Prepared prepare(const ops::NodeView& view, int) {
  const int64_t width = view.operands[0].dim(-1);
  const int64_t rows = view.operands[0].elements() / width;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / width);
  return {[=](const KernelArgs& args) {
    const float* logits = args.in(0);             // [.., v]
    const int32_t* labels = args.in<int32_t>(1);  // [..]
    float* nll = args.out(0);                     // [..]
    float* lse = args.out(1);                     // [..]
    args.pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        lse[t] = log_sum_exp(logits + t * width, width);
        nll[t] = labels[t] < 0 ? 0.0F : lse[t] - logits[t * width + labels[t]];
      }
    });
  }};
}

// out = factor * exp(row - lse); out may be row.
void scaled_softmax(const float* row, float lse, float factor, float* out, int64_t width) {
  if (factor == 0.0F) {
    std::fill_n(out, width, 0.0F);
    return;
  }
  for (int64_t c = 0; c < width; c += kChunk) {
    const int64_t count = std::min(kChunk, width - c);
    row_exp_sum(row + c, lse, out + c, count);
    row_scale(factor, out + c, out + c, count);
  }
}

Prepared prepare_grad(const ops::NodeView& view, int) {
  const int64_t width = view.operands[0].dim(-1);
  const int64_t rows = view.operands[0].elements() / width;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / width);
  return {[=](const KernelArgs& args) {
    const float* logits = args.in(0);             // [.., v]
    const int32_t* labels = args.in<int32_t>(1);  // [..]
    const float* lse = args.in(2);                // [..]
    const float* dnll = args.in(3);               // [..]
    const float* dlse = args.in(4);               // [..]
    float* dlogits = args.out(0);                 // [.., v], may share the buffer of logits
    args.pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const float from_nll = labels[t] < 0 ? 0.0F : dnll[t];
        scaled_softmax(logits + t * width, lse[t], from_nll + dlse[t], dlogits + t * width, width);
        if (labels[t] >= 0) dlogits[t * width + labels[t]] -= from_nll;
      }
    });
  }};
}

}  // namespace

Kernel cross_entropy_kernel() { return {.op = "cross_entropy", .prepare = prepare}; }
Kernel cross_entropy_grad_kernel() { return {.op = "cross_entropy_grad", .prepare = prepare_grad}; }

}  // namespace megacpp::runtime::cpu
