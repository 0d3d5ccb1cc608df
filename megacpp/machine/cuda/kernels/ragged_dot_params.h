// SPDX-License-Identifier: Apache-2.0
// What host and device share of the experts' products. How many rows each expert has is known on the device alone, so
// ragged_rows first lists them there, expert by expert, as segments of up to kSegmentRows rows of one group; products
// take their rows from that list. Groups of several chunks then share tiles, and no row is copied or padded to a tile.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

inline constexpr int kSegmentRows = 32;
inline constexpr int kWarpRows = 16;      // of a tile
inline constexpr int kTileRows = 128;     // of a product's result in one block
inline constexpr int kTileColumns = 256;  // likewise
inline constexpr int kTileDepth = 64;     // of the contracted dimension at a time
inline constexpr int kClusterBlocks = 2;  // that share the tiles of the right side
inline constexpr int kRowsThreads = 1024;
inline constexpr int kProductThreads = 384;
inline constexpr int kPlainThreads = 256;
inline constexpr int kMostRowResults = 3;  // of one product
inline constexpr int kPlainTile = 64;      // columns, and rows of a weight gradient, of a block of a plain kernel

/// Shared memory of a block of a product: stages of both sides' tiles, scratch, barriers, and what aligning to 1024
/// bytes may take.
inline constexpr int kStages = 4;
inline constexpr int kStageBytes = (kTileRows + kTileColumns) * kTileDepth * 2;
inline constexpr int kMultiplyingWarps = 8;
inline constexpr int kScratchBytes = 4096;  // of a multiplying warp
inline constexpr int kProductSharedBytes =
    1024 + kStages * kStageBytes + kMultiplyingWarps * kScratchBytes + 3 * kStages * 8;

/// Rows [row, row + used) of one expert.
struct Segment {
  int32_t row;
  uint16_t used;  // up to kSegmentRows
  uint16_t expert;
};

/// The rows of one expert in one chunk.
struct RowGroup {
  int32_t start, rows;
  int32_t first_segment;
};

/// How rows belong to experts: in chunks of `chunk_rows`, packed one group behind the other, or each expert's in
/// `expert_rows` places of its own.
struct RowLayout {
  int64_t chunks, experts;
  int64_t chunk_rows;   // with those not in use
  int64_t expert_rows;  // 0: packed
};

/// Lists of segments, one behind the other; each expert's is filled to a multiple of a product's unit with empty ones,
/// whose rows go on where its last rows end.
struct SegmentLists {
  const int32_t* first;  // [experts + 1] where each begins
  const Segment* segments;
};

struct RaggedRowsParams {
  RowLayout layout;
  const int32_t* counts;  // [chunks, experts]
  int32_t unit;           // segments
  int32_t* first;         // [experts + 1]
  RowGroup* groups;       // [experts, chunks]
  Segment* segments;
  unsigned char* results[kMostRowResults];  // [rows, row_bytes] each; null behind the last
  const unsigned char* addend;              // what rows of result 0 that are nobody's become; null: zeros
  int64_t row_bytes;
  int32_t fill_blocks;  // for each chunk; 0: there is no such result, or it is the addend
};

/// TensorMap of tensor_map.h, whose header is none for device code.
struct alignas(64) TileMap {
  uint64_t opaque[16];
};

/// bf16[rows, ..] that are read: boxes of kTileRows and of kSegmentRows rows.
struct LoadedRows {
  TileMap tile, segment;
};

/// bf16[rows, ..] that are written: boxes of a warp's rows; where those are not all in use they go row by row.
struct StoredRows {
  TileMap warp;
  void* values;        // null: not wanted
  uint64_t unused[7];  // up to the alignment: what launches are handed holds no stale words
};

/// result[row, n] = sum over k of a[row, k] * w[expert of row, k, n], w as [E,k,n] or, transposed, [E,n,k]; with
/// `addend` where there is one.
struct RaggedDotParams {
  LoadedRows a;
  LoadedRows addend;  // like result, of the kernels that add it; may be the same
  TileMap w;
  SegmentLists lists;  // unit: the rows of a cluster
  StoredRows result;   // [rows, n]
  int32_t experts, k, n;
};

/// result[e, m, n] = sum over rows of e of a[row, m] * b[row, n], with `addend` where there is one.
struct RaggedDotWeightParams {
  TileMap a, a_segment, b, b_segment;  // boxes of kTileDepth and of kSegmentRows rows
  SegmentLists lists;                  // unit: kTileDepth rows
  const void* addend;                  // like result; may be the same; null: none
  void* result;                        // bf16 or f32 [E, m, n]
  int32_t experts, m, n;
};

/// The same products for any dtype and width, without tensor cores.
struct PlainRaggedDotParams {
  const void *a, *w;  // [rows, k], [E, k, n] or [E, n, k]
  SegmentLists lists;
  const void* addend;  // null: none
  void* result;
  int64_t k, n;
  int64_t w_k_stride, w_n_stride;
  int32_t experts;
};

struct PlainRaggedDotWeightParams {
  const void *a, *b;  // [rows, m], [rows, n]
  SegmentLists lists;
  const void* addend;
  void* result;
  int64_t m, n;
};

}  // namespace megacpp::runtime::cuda
