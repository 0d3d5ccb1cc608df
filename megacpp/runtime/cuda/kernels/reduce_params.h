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
/// result.
struct ReduceParams {
  uint64_t x, y, partials;
  uint64_t kept, folded;  // elements
  uint64_t part;          // folded elements of each part but perhaps the last
  int32_t parts;
  ReduceDims kept_dims, folded_dims;
};

/// Columns, and rows at once, of a block where kept elements are neighbours; else all its threads fold one element.
inline constexpr int kReduceColumns = 32;
inline constexpr int kReduceRows = 8;

/// x and y are [outer, size, inner].
struct CumsumParams {
  uint64_t x, y;
  uint64_t lines;  // outer * inner
  uint32_t inner;
  uint32_t reverse;
  int64_t size;
};

}  // namespace megacpp::runtime::cuda
