// SPDX-License-Identifier: Apache-2.0
// The reduction of every transport that reduces by itself: operands in the order given, narrow numbers in f32, rounded
// once. The same operands in the same order give the same bits wherever and in whatever pieces they are reduced.
#pragma once

#include <cstdint>
#include <span>

#include "megacpp/machine/collectives/call.h"

namespace megacpp::collectives {

/// The type that numbers of a dtype are reduced in.
inline ir::DType sum_dtype(ir::DType dtype) { return ir::record(dtype).sums; }

/// out[i] = operands[0][i] + operands[1][i] + ... `out` may be operands[k] for one k, but must not overlap the elements
/// read otherwise. Partial reductions are in sum_dtype(), which nothing has rounded, and may be at any address. Never
/// allocates.
struct ReduceArgs {
  ir::DType dtype = ir::DType::f32;
  Reduction reduction = Reduction::sum;
  std::span<const void* const> operands = {};  // at least one
  std::span<const void* const> partials = {};  // added behind the operands
  int64_t count = 0;                           // elements
  void* out = nullptr;
  bool is_partial = false;  // the result
};
void reduce(const ReduceArgs& args);

}  // namespace megacpp::collectives
