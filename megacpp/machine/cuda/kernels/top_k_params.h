// SPDX-License-Identifier: Apache-2.0
// Parameters of top_k.cu.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/float_array.h"

namespace megacpp::runtime::cuda {

struct TopKParams {
  FloatArray x;       // [rows, width]
  FloatArray values;  // [rows, k]
  uint64_t indices;   // i32 [rows, k]
  int64_t rows, width, k;
  int64_t lanes;  // of a warp that share a row: a power of two
};

struct TopKGradParams {
  uint64_t indices;    // i32 [rows, k]
  FloatArray dvalues;  // [rows, k]
  FloatArray dx;       // [rows, width]
  int64_t rows, width, k;
};

}  // namespace megacpp::runtime::cuda
