// SPDX-License-Identifier: Apache-2.0
// Parameters of ssd_plain.cu and ssd_mma.cu: ssd and its gradient over `batch` sequences, all leading dimensions.
#pragma once

#include <cstdint>

#include "megacpp/runtime/cuda/kernels/float_array.h"

namespace megacpp::runtime::cuda {

struct SsdSizes {
  int64_t batch, seq, heads, head_dim, groups, state;
};

struct SsdParams {
  FloatArray x;        // [batch, seq, heads, head_dim]
  FloatArray dt;       // [batch, seq, heads]
  FloatArray a;        // [heads]
  FloatArray b, c;     // [batch, seq, groups, state]
  uint64_t positions;  // i32 [batch, seq], places of tokens in documents, or 0
  FloatArray y;        // as x; the gradient's dy
  SsdSizes sizes;
};

// ---- Position by position, of any size up to kMostSsdState

inline constexpr int64_t kMostSsdState = 256;
inline constexpr int kSsdWarps = 8;      // of a block; each takes one row of a head's state
inline constexpr int kSsdGradWarps = 4;  // of a block of the gradient, which takes a head
inline constexpr int kSsdSpan = 16;      // positions whose states are made again for the gradient

struct SsdGradParams {
  SsdParams forward;
  FloatArray dx, ddt;  // as x, dt
  uint64_t states;     // f32 [batch, heads, spans, head_dim, state] at the start of each span
  uint64_t dstates;    // f32 [batch, heads, head_dim, state], zeros
  uint64_t db, dc;     // f32 [batch, seq, heads, state]
  uint64_t da;         // f32 [batch, heads]
};

/// Sums over the heads of each group, in their order.
struct SsdGroupSumParams {
  uint64_t of_heads;  // f32 [rows, heads, state]
  FloatArray sums;    // [rows, groups, state]
  int64_t rows, heads, groups, state;
};

/// da [heads] = sums of its parts [parts, heads], in their order.
struct SsdRateSumParams {
  uint64_t of_parts;  // f32
  FloatArray da;
  int64_t parts, heads;
};

}  // namespace megacpp::runtime::cuda
