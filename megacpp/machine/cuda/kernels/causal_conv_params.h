// SPDX-License-Identifier: Apache-2.0
// Parameters of causal_conv.cu, and how it cuts its work.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/float_array.h"

namespace megacpp::runtime::cuda {

inline constexpr int kConvThreads = 128;  // of a block
/// Columns and rows of partial sums that a block of the second pass of the weights' gradient adds up.
inline constexpr int kConvSumColumns = 32;
inline constexpr int kConvSumRows = 16;

struct ConvSizes {
  int64_t batch, seq, channels, width;  // batch: all leading dimensions
  int64_t reverse;                      // 1: positions after t instead of before
  int64_t steps;                        // positions that a thread walks
};

struct CausalConvParams {
  FloatArray x;        // [batch, seq, channels]
  FloatArray w;        // [channels, width]
  FloatArray y;        // [batch, seq, channels]
  uint64_t positions;  // i32 [batch, seq], or 0
  ConvSizes sizes;
};

struct CausalConvWeightParams {
  FloatArray x, dy;    // [batch, seq, channels]
  uint64_t positions;  // i32 [batch, seq], or 0
  uint64_t partial;    // f32 [batch, tiles of `steps`, width, channels]
  ConvSizes sizes;
};

/// `reverse` is the walk's: that of the convolution turned round.
struct CausalConvGradParams {
  FloatArray x, dy;    // [batch, seq, channels]
  FloatArray w;        // [channels, width]
  FloatArray dx;       // [batch, seq, channels]
  uint64_t positions;  // i32 [batch, seq], or 0
  uint64_t partial;    // f32 [batch, tiles of `steps`, width + 1, channels]: of dw, then of the bias
  ConvSizes sizes;
};

struct CausalConvWeightSumParams {
  uint64_t partial;  // f32 [parts, width, channels], or width + 1 with a bias
  FloatArray dw;     // [channels, width]
  FloatArray db;     // [channels], or address 0
  int64_t parts, channels, width;
};

}  // namespace megacpp::runtime::cuda
