// SPDX-License-Identifier: Apache-2.0
// Parameters of ssd_plain.cu and ssd_mma.cu: ssd and its gradient over `batch` sequences, all leading dimensions.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/float_array.h"

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

/// da [heads] = sums of its parts [parts, heads], always in the same order.
struct SsdRateSumParams {
  uint64_t of_parts;  // f32
  FloatArray da;
  int64_t parts, heads;
};

// ---- By tensor cores: x, B, C and dy in bf16, heads of kSsdHeadDim and states of kSsdState

inline constexpr int kSsdChunk = 64;  // positions
inline constexpr int kSsdHeadDim = 64, kSsdState = 128;
inline constexpr int kSsdHeadWarps = 4;                   // of a block that walks heads, for each of them
inline constexpr int kSsdChunkWarps = 3 * kSsdHeadWarps;  // of a block that takes a chunk

// Shared memory of a block; the device code checks these.
inline constexpr int kSsdTileBytes = kSsdChunk * kSsdHeadDim * 2;  // x, y, pairs
inline constexpr int kSsdRowsBytes = kSsdChunk * kSsdState * 2;    // B, C, a state
inline constexpr int kSsdDecayBytes = 6 * kSsdChunk * 4;
inline constexpr int kSsdAlignment = 1024;  // of tiles, which a block sees to itself
inline constexpr int ssd_forward_shared_bytes(int heads) {
  return kSsdAlignment + 4 * kSsdRowsBytes + heads * (3 * kSsdTileBytes + kSsdRowsBytes + 2 * kSsdDecayBytes);
}
inline constexpr int ssd_states_shared_bytes(int heads) {
  return kSsdAlignment + 2 * kSsdRowsBytes + heads * (2 * kSsdTileBytes + kSsdRowsBytes + 2 * kSsdDecayBytes);
}
inline constexpr int kSsdChunksSharedBytes =
    kSsdAlignment + 6 * kSsdRowsBytes + 6 * kSsdTileBytes + 3 * kSsdDecayBytes + 2 * (8 * kSsdChunk + 4) * 4;

/// States of all heads between chunks, as bf16 [batch, heads, chunks, head_dim, state].
struct SsdStatesParams {
  SsdParams forward;  // y is dy
  uint64_t states;    // at the start of each chunk
  uint64_t dstates;   // their cotangents at the end of each
};

struct SsdChunksParams {
  SsdStatesParams states;
  FloatArray dx, ddt;  // as x, dt
  FloatArray db, dc;   // as B, C
  uint64_t da;         // f32 [batch, chunks, heads]
};

}  // namespace megacpp::runtime::cuda
