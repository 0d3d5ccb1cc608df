// SPDX-License-Identifier: Apache-2.0
// Kernels that move elements without looking at them. A unit is 1, 2, 4, 8 or 16 bytes, as alignment allows.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Runs of `count` units, one for each row; a block has threadIdx.y rows. Units [low, low + inner) of a run are copied,
/// the others filled.
struct CopyRowsParams {
  uint64_t from, to;
  int64_t rows, count, low, inner;                     // units
  int64_t from_pitch, to_pitch, from_first, to_first;  // units
  uint32_t fill[4];                                    // sixteen bytes of the value
};

/// Most dimensions of a transpose, neighbours that stay neighbours counted once.
inline constexpr int kMaxTransposeDims = 8;

/// Result dimensions all but the last, which stays the last: `inner` units of each row are copied.
struct TransposeRowsParams {
  uint64_t from, to;
  int64_t rows, inner;
  int32_t dims;
  uint32_t sizes[kMaxTransposeDims];        // of the result
  int64_t from_strides[kMaxTransposeDims];  // units
};

/// Tiles of two dimensions: `across` is the last of the operand, `down` the last of the result. Blocks are numbered by
/// the other dimensions, then tiles down, then tiles across.
struct TransposeTilesParams {
  uint64_t from, to;
  uint32_t across, down;         // sizes
  int64_t from_down, to_across;  // strides, elements; those of the other two are 1
  uint32_t tiles_across, tiles_down;
  int32_t dims;  // the others
  uint32_t sizes[kMaxTransposeDims];
  int64_t from_strides[kMaxTransposeDims];
  int64_t to_strides[kMaxTransposeDims];
};

/// Element i is i / inner % size.
struct IotaParams {
  uint64_t to;
  uint64_t count;
  uint32_t inner, size;
};

/// Edge of a transposed tile, by bytes of an element: rows of 128 bytes, or 64 elements.
constexpr int transpose_edge(int element_bytes) { return element_bytes == 4 ? 32 : 64; }
/// Of two bytes in vectors: elements of an access, and threads of a block, each with two vectors of a tile.
inline constexpr int kTransposeVector = 8;
inline constexpr int kTransposeVectorThreads = 256;
inline constexpr int kTransposeThreadsAcross = 32;
inline constexpr int kTransposeThreadsDown = 8;

}  // namespace megacpp::runtime::cuda
