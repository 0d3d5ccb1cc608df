// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Row i of the result is row ids[i] of the table; `width` in units of 1 to 16 bytes. A block has threadIdx.y rows.
struct TakeParams {
  uint64_t table, ids, to;
  int64_t rows, width;
};

/// The ids' places by row of the table: order [count] has places of row r, ascending, in [starts[r], starts[r + 1]). A
/// warp finds the places of kScatterRowsPerWarp neighbouring rows.
struct ScatterOrderParams {
  uint64_t ids, order, starts;
  int64_t count;
  int32_t rows;
};
inline constexpr int kScatterRowsPerWarp = 64;
inline constexpr int kScatterWarps = 4;  // of a block

/// Row r of the table is the sum of the values at its places, in their order. A block has threadIdx.y rows; `vectors`
/// of a row.
struct ScatterSumParams {
  uint64_t values, order, starts, table;
  int64_t rows, vectors;
};

}  // namespace megacpp::runtime::cuda
