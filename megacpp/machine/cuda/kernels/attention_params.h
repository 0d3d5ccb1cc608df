// SPDX-License-Identifier: Apache-2.0
// What host and device share of attention and its gradient: arguments of the device functions, and which pairs of a
// tile of the score matrix a mask leaves visible. The arithmetic of masks is that of ops/attention_mask.h in 32 bits:
// positions are i32 and at least 0, so no difference of two overflows.
// A plain C++ subset, all of it constexpr, so that device code may call it.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// lse of a query that sees nothing (ops::kHiddenScore).
inline constexpr float kHiddenLse = -1e30F;

/// Queries and keys of one tile of the simple kernels, and tokens that share a TokenRange.
inline constexpr int kTokenBlock = 64;

constexpr int32_t blocks_of_tokens(int32_t tokens) { return (tokens + kTokenBlock - 1) / kTokenBlock; }

/// How many pairs of some queries and some keys are visible; `none` and `all` are certain, `some` is not.
enum class TileCover : int32_t { none, some, all };

/// Lowest and highest label of some tokens, both included.
struct LabelRange {
  int32_t low, high;
};

/// Of consecutive tokens: positions in time, and segments (0 where the node has none).
struct TokenRange {
  LabelRange positions, segments;
};

constexpr LabelRange join(LabelRange a, LabelRange b) {
  return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

/// ops::AttentionMask, its sizes brought below 2^31.
struct TileMask {
  int32_t causal, window, sparse_block, sparse_local, sparse_global;

  constexpr bool visible(int32_t query, int32_t key) const {
    if (causal != 0 && key > query) return false;
    if (window > 0 && query - key >= window) return false;
    if (sparse_block == 0) return true;
    const int32_t key_block = key / sparse_block, apart = query / sparse_block - key_block;
    return key_block < sparse_global || (apart < 0 ? -apart : apart) < sparse_local;
  }

  /// By causality and window.
  constexpr TileCover cover_of_band(LabelRange queries, LabelRange keys) const {
    TileCover cover = TileCover::all;
    if (causal != 0) cover = both(cover, cover_of(keys.high <= queries.low, keys.low > queries.high));
    if (window > 0) cover = both(cover, cover_of(queries.high - keys.low < window, queries.low - keys.high >= window));
    return cover;
  }

  constexpr TileCover cover_of_positions(LabelRange queries, LabelRange keys) const {
    const TileCover cover = cover_of_band(queries, keys);
    if (sparse_block == 0) return cover;
    const LabelRange query_blocks{queries.low / sparse_block, queries.high / sparse_block};
    const LabelRange key_blocks{keys.low / sparse_block, keys.high / sparse_block};
    const int32_t most_apart = larger(query_blocks.high - key_blocks.low, key_blocks.high - query_blocks.low);
    const int32_t least_apart = larger(query_blocks.low - key_blocks.high, key_blocks.low - query_blocks.high);
    const TileCover global = cover_of(key_blocks.high < sparse_global, key_blocks.low >= sparse_global);
    const TileCover local = cover_of(most_apart < sparse_local, larger(0, least_apart) >= sparse_local);
    return both(cover, global > local ? global : local);
  }

  constexpr TileCover cover(const TokenRange& queries, const TokenRange& keys) const {
    const TileCover by_position = cover_of_positions(queries.positions, keys.positions);
    const LabelRange a = queries.segments, b = keys.segments;
    if (a.high < b.low || b.high < a.low) return TileCover::none;
    const bool one_each = a.low == a.high && b.low == b.high;
    return both(by_position, one_each ? TileCover::all : TileCover::some);
  }

 private:
  static constexpr int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
  static constexpr TileCover cover_of(bool all, bool none) {
    return none ? TileCover::none : all ? TileCover::all : TileCover::some;
  }
  static constexpr TileCover both(TileCover a, TileCover b) { return a < b ? a : b; }
};

/// Blocks [begin, end) of a row of blocks.
struct BlockRange {
  int32_t begin, end;
};

struct AttentionShape {
  int32_t batch, queries, keys, heads, kv_heads, dim;
  float scale;

  constexpr int32_t group() const { return heads / kv_heads; }
  /// Element offsets into q-like [b,s,H,d], k-like [b,t,K,d] and lse [b,H,s].
  constexpr int64_t query_at(int32_t b, int32_t head, int32_t i) const {
    return ((static_cast<int64_t>(b) * queries + i) * heads + head) * dim;
  }
  constexpr int64_t key_at(int32_t b, int32_t kv_head, int32_t j) const {
    return ((static_cast<int64_t>(b) * keys + j) * kv_heads + kv_head) * dim;
  }
  constexpr int64_t lse_at(int32_t b, int32_t head, int32_t i) const {
    return (static_cast<int64_t>(b) * heads + head) * queries + i;
  }
};

/// What describes tokens. Without positions a token stands where its index says; without segments all are of one.
struct TokenLabels {
  const int32_t* query_segments;   // [b,s] or null
  const int32_t* key_segments;     // [b,t] or null
  const int32_t* query_positions;  // [s] or null
  const int32_t* key_positions;    // [t] or null
  TokenRange* query_ranges;        // [b, blocks of s] or null where there is neither of the above
  TokenRange* key_ranges;          // [b, blocks of t] or null

  constexpr bool any() const { return query_ranges != nullptr; }
};

/// Which pairs are visible, in a node's own indices.
struct TileVisibility {
  AttentionShape shape;
  TileMask mask;
  TokenLabels tokens;

  constexpr bool visible(int32_t b, int32_t query, int32_t key) const {
    if (query >= shape.queries || key >= shape.keys) return false;
    if (!tokens.any()) return mask.visible(query, key);
    if (tokens.query_segments != nullptr && tokens.query_segments[static_cast<int64_t>(b) * shape.queries + query] !=
                                                tokens.key_segments[static_cast<int64_t>(b) * shape.keys + key])
      return false;
    const bool placed = tokens.query_positions != nullptr;
    return placed ? mask.visible(tokens.query_positions[query], tokens.key_positions[key]) : mask.visible(query, key);
  }

  /// Of queries or keys [begin, end), where begin is a multiple of kTokenBlock.
  constexpr TokenRange range_of_queries(int32_t b, int32_t begin, int32_t end) const {
    return range_of(tokens.query_ranges, static_cast<int64_t>(b) * blocks_of_tokens(shape.queries), {begin, end});
  }
  constexpr TokenRange range_of_keys(int32_t b, int32_t begin, int32_t end) const {
    return range_of(tokens.key_ranges, static_cast<int64_t>(b) * blocks_of_tokens(shape.keys), {begin, end});
  }

  /// Blocks of `block` keys outside of which queries [begin, end) see nothing; those inside may be hidden too.
  constexpr BlockRange key_blocks(int32_t begin, int32_t end, int32_t block) const {
    BlockRange blocks{0, (shape.keys + block - 1) / block};
    if (tokens.query_positions != nullptr) return blocks;
    if (mask.causal != 0 && (end - 1) / block + 1 < blocks.end) blocks.end = (end - 1) / block + 1;
    if (mask.window > 0 && begin - mask.window + 1 > 0) blocks.begin = (begin - mask.window + 1) / block;
    return blocks;
  }
  /// Blocks of `block` queries outside of which no query sees one of keys [begin, end).
  constexpr BlockRange query_blocks(int32_t begin, int32_t end, int32_t block) const {
    BlockRange blocks{0, (shape.queries + block - 1) / block};
    if (tokens.query_positions != nullptr) return blocks;
    if (mask.causal != 0) blocks.begin = begin / block;
    if (mask.window > 0 && mask.window < shape.queries) {
      const int32_t last = (end - 1 + mask.window - 1) / block + 1;
      blocks.end = last < blocks.end ? last : blocks.end;
    }
    if (blocks.begin > blocks.end) blocks.begin = blocks.end;
    return blocks;
  }

 private:
  static constexpr TokenRange range_of(const TokenRange* ranges, int64_t row, LabelRange of) {
    if (ranges == nullptr) return {{of.low, of.high - 1}, {0, 0}};
    TokenRange range = ranges[row + of.low / kTokenBlock];
    for (int32_t at = of.low / kTokenBlock + 1; at * kTokenBlock < of.high; ++at) {
      range.positions = join(range.positions, ranges[row + at].positions);
      range.segments = join(range.segments, ranges[row + at].segments);
    }
    return range;
  }
};

struct AttentionParams {
  TileVisibility visibility;
  const void* q;  // [b,s,H,d]
  const void* k;  // [b,t,K,d]
  const void* v;  // [b,t,K,d]
  void* out;      // [b,s,H,d]
  float* lse;     // [b,H,s]
};

/// A tensor map of the driver (tensor_map.h).
struct alignas(64) MapWords {
  uint64_t words[16];
};

/// Tiles of the forward kernel of tensor cores: a warpgroup for each 64 queries, and one that copies.
template <int dim>
struct ForwardTile {
  static constexpr int kConsumers = dim == 64 ? 3 : 2;
  static constexpr int kQueries = 64 * kConsumers;
  static constexpr int kKeys = 128;
  static constexpr int kStages = dim == 64 ? 4 : 2;  // of keys and values in shared memory
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr int kQueryBytes = kQueries * dim * 2;
  static constexpr int kKeyBytes = kKeys * dim * 2;
  static constexpr int kBarrierBytes = 256;
  static constexpr int kSharedBytes = kQueryBytes + 2 * kStages * kKeyBytes + kBarrierBytes;
};

/// Maps have five dimensions: 64 columns, heads, tokens, pieces of 64 columns, batch rows. A box is whole but for heads
/// and batch rows: tokens of one tile.
struct AttentionTmaParams {
  AttentionParams node;
  MapWords q, k, v;
};

/// Where a task stands when tasks go through some rows before the next ones, so that what these read stays in L2: tile
/// by tile, and in each all rows of the part.
struct RowTile {
  int32_t row, tile;
};
struct RowTiles {
  int32_t rows, tiles, together;

  constexpr int32_t count() const { return rows * tiles; }
  constexpr RowTile at(int32_t task) const {
    const int32_t first = task / (together * tiles) * together, left = rows - first;
    const int32_t width = left < together ? left : together, within = task - first * tiles;
    return {first + within % width, within / width};
  }
};

struct AttentionGradParams {
  TileVisibility visibility;
  const void* q;     // [b,s,H,d]
  const void* k;     // [b,t,K,d]
  const void* v;     // [b,t,K,d]
  const void* out;   // [b,s,H,d]
  const float* lse;  // [b,H,s]
  const void* dout;  // [b,s,H,d]
  float* delta;      // [b,H,s], dout . out
  void* dq;          // [b,s,H,d]
  void* dk;          // [b,t,K,d]
  void* dv;          // [b,t,K,d]
};

/// Tiles of the backward kernel of tensor cores: two warpgroups with 64 keys each, and one that copies.
template <int dim>
struct GradTile {
  static constexpr int kQueries = dim == 64 ? 128 : 64;
  static constexpr int kKeys = 128;
  static constexpr int kStages = 2;  // of queries, cotangents, scores and sums in shared memory
  static constexpr int kThreads = 384;
  static constexpr int kKeyBytes = kKeys * dim * 2;
  static constexpr int kQueryBytes = kQueries * dim * 2;
  static constexpr int kScoreBytes = kQueries * kKeys * 2;
  static constexpr int kSums = kQueries * dim;  // of dq, f32
  static constexpr int kStatisticBytes = kQueries * 4;
  static constexpr int kBarrierBytes = 256;
  static constexpr int kSharedBytes =
      2 * kKeyBytes + kStages * (2 * (kQueryBytes + kStatisticBytes) + kScoreBytes + kSums * 4) + kBarrierBytes;

  static constexpr int32_t query_tiles(int32_t queries) { return (queries + kQueries - 1) / kQueries; }
  static constexpr int32_t key_tiles(int32_t keys) { return (keys + kKeys - 1) / kKeys; }
};

/// Key tiles add to dq one after the other, those of the first keys first: `turns` counts them for each query tile, so
/// that the same bits come out. Blocks of threads take the tasks in the order of `ticket`, so that whom one waits for
/// has begun. `lse` and `delta` of queries past the end are such that these have no weight.
struct AttentionGradTmaParams {
  AttentionGradParams node;
  MapWords q, k, v, dout;
  float* lse;             // [b, H, query tiles, queries of a tile], times log2 e
  float* delta;           // the same, dout . out
  float* dq_sums;         // [b, H, query tiles, warpgroup 2, 8, thread 128, 4]
  int32_t* turns;         // [b, H, query tiles]
  int32_t* ticket;        // [1]
  int32_t rows_together;  // rows [b, K] whose key tiles are taken at one time
};

}  // namespace megacpp::runtime::cuda
