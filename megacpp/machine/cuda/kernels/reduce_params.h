// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Most kept, and most folded, dimensions, neighbours counted once.
inline constexpr int kMaxReduceDims = 8;

struct ReduceDims {
  int32_t dims;
  uint32_t sizes[kMaxReduceDims];
  int64_t strides[kMaxReduceDims];  // elements
};

/// First pass: from x to [parts, kept] partial results, or with one part to the result itself. Second: these to the
/// result. Accesses are vectors of neighbours, or single elements.
struct ReduceParams {
  uint64_t x, y, partials;
  uint64_t kept;    // elements of the result
  uint64_t folded;  // accesses that are folded into each of them
  uint64_t part;    // of these in each part but perhaps the last
  int32_t parts;
  int32_t lanes;                      // a power of two: see kReduceThreads
  ReduceDims kept_dims, folded_dims;  // of accesses; strides are in elements
};

/// Of a block of the first pass. Where kept elements are neighbours, `lanes` threads have neighbouring accesses and the
/// others further rows of them; else `lanes` threads fold one element and the others further elements.
inline constexpr int kReduceThreads = 256;

/// Columns and rows of partial results that a block of the second pass folds.
inline constexpr int kReduceColumns = 32;
inline constexpr int kReduceRows = 32;

/// x and y are [outer, size, inner].
struct CumsumParams {
  uint64_t x, y;
  uint64_t lines;  // outer * inner
  uint32_t inner;
  uint32_t reverse;
  int64_t size;
};

}  // namespace megacpp::runtime::cuda
