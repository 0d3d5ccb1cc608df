// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/reduce.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

// Elements reduced at a time. The sums stay in the first-level cache, and, being local, are known not to overlap any
// operand, so that the loops vectorise; an operand that is also the result is read before it is written.
constexpr int64_t kTile = 1024;

struct Add {
  float operator()(float a, float b) const { return a + b; }
  int32_t operator()(int32_t a, int32_t b) const {  // wraps
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// `count` elements as what they are summed in: where they are, or widened to `wide`.
template <typename Sum>
const Sum* numbers(const std::byte* from, const ir::DTypeRecord& type, bool is_narrow, Sum* wide, int64_t count) {
  if (!is_narrow) return reinterpret_cast<const Sum*>(from);
  if constexpr (std::is_same_v<Sum, float>) type.to_f32(from, wide, count);
  return wide;
}

template <typename Sum, typename Combine>
void reduce_as(const ReduceArgs& args, Combine combine) {
  const ir::DTypeRecord& type = ir::record(args.dtype);
  const bool is_narrow = ir::is_narrow(args.dtype);
  std::array<Sum, kTile> sums, wide;
  for (int64_t first = 0; first < args.count; first += kTile) {
    const int64_t left = std::min(kTile, args.count - first);
    const auto count = static_cast<size_t>(left);
    const auto operand = [&](size_t k) {
      return numbers(static_cast<const std::byte*>(args.operands[k]) + first * type.bytes(), type, is_narrow,
                     wide.data(), left);
    };
    const Sum* x = operand(0);
    for (size_t i = 0; i < count; ++i) sums[i] = x[i];
    for (size_t k = 1; k < args.operands.size(); ++k) {
      x = operand(k);
      for (size_t i = 0; i < count; ++i) sums[i] = combine(sums[i], x[i]);
    }
    const size_t partial_first = static_cast<size_t>(first) * sizeof(Sum);
    for (const void* const each : args.partials) {
      std::memcpy(wide.data(), static_cast<const std::byte*>(each) + partial_first, count * sizeof(Sum));
      for (size_t i = 0; i < count; ++i) sums[i] = combine(sums[i], wide[i]);
    }
    if (args.is_partial) {
      std::memcpy(static_cast<std::byte*>(args.out) + partial_first, sums.data(), count * sizeof(Sum));
      continue;
    }
    std::byte* const out = static_cast<std::byte*>(args.out) + first * type.bytes();
    if constexpr (std::is_same_v<Sum, float>)
      type.from_f32(sums.data(), out, left);
    else
      std::memcpy(out, sums.data(), count * sizeof(Sum));
  }
}

template <typename Sum>
void reduce_as(const ReduceArgs& args) {
  return args.reduction == Reduction::sum ? reduce_as<Sum>(args, Add{}) : reduce_as<Sum>(args, Max{});
}

}  // namespace

void reduce(const ReduceArgs& args) {
  switch (ir::record(args.dtype).kind) {
    case ir::ElementKind::real:
      return reduce_as<float>(args);
    case ir::ElementKind::integer:
      MEGACPP_CHECK(ir::dtype_bytes(args.dtype) == sizeof(int32_t)) << "sums of " << ir::dtype_name(args.dtype);
      return reduce_as<int32_t>(args);
    case ir::ElementKind::flag:
      return reduce_as<uint8_t>(args, Max{});  // a sum is refused by check_call
  }
}

}  // namespace megacpp::collectives
