// SPDX-License-Identifier: Apache-2.0
// What host and device share of products that no library can express, and of the numbers that searches run on.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

inline constexpr int kDotPlainThreads = 256;
inline constexpr int kDotPlainTile = 64;  // rows and columns of a block
inline constexpr int kDotPlainMostAxes = 6;
inline constexpr unsigned kFillBlocks = 1024;

/// Elements between neighbours along one axis, in both sides and in the result.
struct PlainAxis {
  int64_t size;
  int64_t lhs, rhs, out;
};

/// Indices of a group of axes, counted through from the last to the first.
struct PlainAxes {
  int32_t count;
  int64_t size;  // of all
  PlainAxis axes[kDotPlainMostAxes];
};

struct DotPlainParams {
  const void *lhs, *rhs;
  const void* addend;  // like result; null: none
  void* result;
  PlainAxes batch, m, n, k;
};

/// Numbers in [-1, 1], the same every time.
struct FillParams {
  uint64_t data;
  int64_t count;
  int32_t is_bf16;  // else f32
};

}  // namespace megacpp::runtime::cuda
