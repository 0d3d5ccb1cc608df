// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/core/base/philox.h"
#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kRandomGrainElements = 1024;
constexpr float kBelowOne = 1 - 0x1p-24F;  // rounding to f32 must not leave the open interval (0, 1)

Prepared prepare_random(const ops::NodeView& view, int) {
  const int64_t count = view.results[0].elements();
  const base::Philox philox(static_cast<uint64_t>(view.attrs.integer("seed")), view.attrs.text("site"));
  const bool uniform = view.attrs.text("distribution") == "uniform";
  return {[=](const KernelArgs& args) {
    const uint32_t step = static_cast<uint32_t>(*args.in<int32_t>(0));
    float* out = args.out(0);
    args.pool.parallel_for(count, kRandomGrainElements, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t index = static_cast<uint64_t>(i);
        out[i] = uniform ? std::min(static_cast<float>(philox.uniform(index, step)), kBelowOne)
                         : static_cast<float>(philox.normal(index, step));
      }
    });
  }};
}

}  // namespace

Kernel random_kernel() { return {.op = "random", .prepare = prepare_random}; }

}  // namespace megacpp::runtime::cpu
