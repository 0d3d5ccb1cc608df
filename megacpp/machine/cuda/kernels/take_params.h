// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Row i of the result is row ids[i] of the table, zeros for ids[i] = table_rows; `width` in units of 1 to 16 bytes. A
/// block has threadIdx.y rows.
struct TakeParams {
  uint64_t table, ids, to;
  int64_t table_rows, rows, width;
};

/// One pass of a stable sort of the ids' places by id: by kScatterDigitBits bits of the ids from bit `shift`. Blocks
/// have kScatterPlaces places each; they count digits first, then move places to where those of their digit go.
struct ScatterOrderParams {
  uint64_t ids;       // i32 [count]
  uint64_t from, to;  // i32 [count]: places, before and after; from 0: the first pass, places are in their order
  uint64_t counts;    // i32 [blocks, kScatterDigits]
  uint64_t sorted;    // i32 [count]: the ids in the order of `to`, of the last pass; else 0
  int64_t count;
  int32_t shift;
};
inline constexpr int kScatterDigitBits = 8;
inline constexpr int kScatterDigits = 1 << kScatterDigitBits;
inline constexpr int kScatterThreads = kScatterDigits;
inline constexpr int kScatterPlaces = 8 * kScatterThreads;

/// starts [rows + 1]: where the ids of each row begin among the sorted ones.
struct ScatterStartsParams {
  uint64_t sorted, starts;
  int64_t count, rows;
};

/// Sums over kScatterTile sorted places at a time, so that rows with many places are summed by many blocks. A row that
/// has all its places in one tile goes to the table; of others each tile keeps its part: of a row that began in a tile
/// before at partials [tile, 0], of one that begins here at [tile, 1]. The second pass adds these in their order, and
/// clears rows without a place.
struct ScatterSumParams {
  uint64_t values, order, sorted, starts;
  uint64_t partials;  // f32 [tiles, 2, width]
  uint64_t table;
  int64_t count, rows;
  int64_t vectors;  // of a row
};
inline constexpr int kScatterTile = 64;

}  // namespace megacpp::runtime::cuda
