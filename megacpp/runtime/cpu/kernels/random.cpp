// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "megacpp/base/philox.h"
#include "megacpp/runtime/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kGrainElements = 1024;
constexpr float kBelowOne = 1 - 0x1p-24F;  // rounding to f32 must not leave the open interval (0, 1)

// Keyed by "site#step"; the op bounds the length of the site.
base::Philox philox_of(uint64_t seed, const std::string& site, int32_t step) {
  std::array<char, 256> text;
  char* at = std::copy(site.begin(), site.end(), text.data());
  *at++ = '#';
  at = std::to_chars(at, text.data() + text.size(), step).ptr;
  return {seed, std::string_view(text.data(), static_cast<size_t>(at - text.data()))};
}

Prepared prepare(const ops::NodeView& view, int) {
  const int64_t count = view.results[0].elements();
  const uint64_t seed = static_cast<uint64_t>(view.attrs.integer("seed"));
  const bool uniform = view.attrs.text("distribution") == "uniform";
  return {[=, site = view.attrs.text("site")](const KernelArgs& args) {
    const base::Philox philox = philox_of(seed, site, *args.in<int32_t>(0));
    float* out = args.out(0);
    args.pool.parallel_for(count, kGrainElements, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t index = static_cast<uint64_t>(i);
        out[i] = uniform ? std::min(static_cast<float>(philox.uniform(index)), kBelowOne)
                         : static_cast<float>(philox.normal(index));
      }
    });
  }};
}

}  // namespace

Kernel random_kernel() { return {.op = "random", .prepare = prepare}; }

}  // namespace megacpp::runtime::cpu
