// SPDX-License-Identifier: Apache-2.0
// Parameters of narrow_dot.cu: products with a side of a few columns, as of a router, which take as long as their wide
// side takes to read or to write.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

inline constexpr int kNarrowThreads = 256;
inline constexpr int kNarrowTile = 32;       // rows of the narrow side that a block holds at once
inline constexpr int kNarrowPartRows = 128;  // rows of a block, at least
inline constexpr int kNarrowMostParts = 264;
inline constexpr int kNarrowSumColumns = 32;  // threads of a block of the last sum: elements, and runs of parts
inline constexpr int kNarrowSumRuns = 8;

/// Elements of the wide side that one thread takes where the narrow side is padded to `columns`: 64 products a row.
constexpr int narrow_vector(int columns) { return 64 / columns; }

struct NarrowDotParams {
  uint64_t wide;     // bf16 [rows, width]: read, or the result
  uint64_t narrow;   // f32 [rows, columns]: read, or the result
  uint64_t weights;  // f32 [width, columns], or the result of sums
  uint64_t addend;   // like wide; 0: none
  uint64_t partial;  // f32 [parts, width, padded columns]
  int64_t rows, width, columns;
  int64_t part_rows, parts;
};

}  // namespace megacpp::runtime::cuda
