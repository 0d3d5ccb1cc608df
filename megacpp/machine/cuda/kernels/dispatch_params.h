// SPDX-License-Identifier: Apache-2.0
// Parameters of dispatch.cu. Slots count the rows of their own chunk.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/float_array.h"

namespace megacpp::runtime::cuda {

inline constexpr int kDispatchWarps = 8;  // of a block; each takes a token, or a row

struct DispatchSizes {
  int64_t tokens;           // of all chunks
  int64_t tokens_in_chunk;  // l
  int64_t rows_in_chunk;    // of all experts
  int64_t choices;          // k
  int64_t width;            // h
};

struct DispatchParams {
  FloatArray tokens;   // x [tokens, width]
  FloatArray rows;     // y [chunks, rows, width]
  uint64_t slots;      // i32 [tokens, choices]
  FloatArray weights;  // [tokens, choices], or address 0
  uint64_t is_used;    // u8 [chunks, rows], zeros; dispatch marks the rows it writes
  FloatArray addend;   // of combine: like tokens, or address 0
  DispatchSizes sizes;
};

struct ClearRowsParams {
  FloatArray rows;   // [count, width]
  uint64_t is_used;  // u8 [count]
  int64_t count, width;
};

struct SlotDotsParams {
  FloatArray tokens;  // x [tokens, width]
  FloatArray rows;    // y [chunks, rows, width]
  uint64_t slots;     // i32 [tokens, choices]
  FloatArray dots;    // [tokens, choices]
  DispatchSizes sizes;
};

}  // namespace megacpp::runtime::cuda
