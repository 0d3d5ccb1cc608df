// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kTopKGrainElements = 4096;

// Keeps the best k so far in descending order; k is small, so insertion beats a heap.
void top_of_row(const float* x, int64_t width, int64_t k, float* values, int32_t* indices) {
  int64_t kept = 0;
  for (int64_t e = 0; e < width; ++e) {
    if (kept == k && !(x[e] > values[k - 1])) continue;
    int64_t at = kept < k ? kept++ : k - 1;
    for (; at > 0 && x[e] > values[at - 1]; --at) {
      values[at] = values[at - 1];
      indices[at] = indices[at - 1];
    }
    values[at] = x[e];
    indices[at] = static_cast<int32_t>(e);
  }
}

Prepared prepare_top_k(const ops::NodeView& view, int) {
  const int64_t width = view.operands[0].dim(-1);
  const int64_t rows = view.operands[0].elements() / width;
  const int64_t k = view.attrs.integer("k");
  const int64_t grain = std::max<int64_t>(1, kTopKGrainElements / width);
  return {[=](const KernelArgs& args) {
    const float* x = args.in(0);              // [..., e]
    float* values = args.out(0);              // [..., k]
    int32_t* indices = args.out<int32_t>(1);  // [..., k]
    args.pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row)
        top_of_row(x + row * width, width, k, values + row * k, indices + row * k);
    });
  }};
}

Prepared prepare_top_k_grad(const ops::NodeView& view, int) {
  const int64_t k = view.operands[0].dim(-1);
  const int64_t width = view.results[0].dim(-1);
  const int64_t rows = view.results[0].elements() / width;
  const int64_t grain = std::max<int64_t>(1, kTopKGrainElements / width);
  return {[=](const KernelArgs& args) {
    const int32_t* indices = args.in<int32_t>(0);  // [..., k]
    const float* values = args.in(1);              // [..., k]
    float* out = args.out(0);                      // [..., e]
    args.pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
      std::fill(out + begin * width, out + end * width, 0.0F);
      for (int64_t i = begin * k; i < end * k; ++i) out[i / k * width + indices[i]] = values[i];
    });
  }};
}

}  // namespace

Kernel top_k_kernel() { return {.op = "top_k", .prepare = prepare_top_k}; }
Kernel top_k_grad_kernel() { return {.op = "top_k_grad", .prepare = prepare_top_k_grad}; }

}  // namespace megacpp::runtime::cpu
