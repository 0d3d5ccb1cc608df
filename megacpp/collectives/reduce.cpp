// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/reduce.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace megacpp::collectives {
namespace {

// Elements reduced at a time. The sums stay in the first-level cache, and, being local, are known not to overlap any
// operand, so that the loops vectorise; an operand that is also the result is read before it is written.
constexpr int64_t kTile = 1024;

// How a dtype is stored and in what it is reduced.
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum load(Stored x) { return x; }
  static Stored store(Sum x) { return x; }
};
using F32 = Plain<float>;
using I32 = Plain<int32_t>;
using Pred = Plain<uint8_t>;
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum load(Stored x) { return ir::bf16_to_f32(x); }
  static Stored store(Sum x) { return ir::f32_to_bf16(x); }
};

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

template <typename Type, typename Combine>
void reduce_as(const ReduceArgs& args, Combine combine) {
  using Stored = typename Type::Stored;
  using Sum = typename Type::Sum;
  std::array<Sum, kTile> sums, partial;
  for (int64_t first = 0; first < args.count; first += kTile) {
    const size_t count = static_cast<size_t>(std::min(kTile, args.count - first));
    const auto operand = [&](size_t k) { return static_cast<const Stored*>(args.operands[k]) + first; };
    const Stored* x = operand(0);
    for (size_t i = 0; i < count; ++i) sums[i] = Type::load(x[i]);
    for (size_t k = 1; k < args.operands.size(); ++k) {
      x = operand(k);
      for (size_t i = 0; i < count; ++i) sums[i] = combine(sums[i], Type::load(x[i]));
    }
    const size_t partial_first = static_cast<size_t>(first) * sizeof(Sum);
    for (const void* const each : args.partials) {
      std::memcpy(partial.data(), static_cast<const std::byte*>(each) + partial_first, count * sizeof(Sum));
      for (size_t i = 0; i < count; ++i) sums[i] = combine(sums[i], partial[i]);
    }
    if (args.is_partial) {
      std::memcpy(static_cast<std::byte*>(args.out) + partial_first, sums.data(), count * sizeof(Sum));
      continue;
    }
    Stored* out = static_cast<Stored*>(args.out) + first;
    for (size_t i = 0; i < count; ++i) out[i] = Type::store(sums[i]);
  }
}

}  // namespace

void reduce(const ReduceArgs& args) {
  const bool sum = args.reduction == Reduction::sum;
  switch (args.dtype) {
    case ir::DType::f32:
      return sum ? reduce_as<F32>(args, Add{}) : reduce_as<F32>(args, Max{});
    case ir::DType::bf16:
      return sum ? reduce_as<Bf16>(args, Add{}) : reduce_as<Bf16>(args, Max{});
    case ir::DType::i32:
      return sum ? reduce_as<I32>(args, Add{}) : reduce_as<I32>(args, Max{});
    case ir::DType::pred:
      return reduce_as<Pred>(args, Max{});  // a sum is refused by check_call
  }
}

}  // namespace megacpp::collectives
