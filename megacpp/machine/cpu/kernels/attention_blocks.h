// SPDX-License-Identifier: Apache-2.0
// What the attention kernels share: sizes and strides on the [b,s,H,d] layout, the tiles of the score matrix that a
// mask leaves visible, and the treatment of hidden scores inside a tile. The score matrix itself never exists.
// What a mask hides is planned ahead where tokens stand in order; positions and segments that come as operands hide
// tiles, columns of a tile and single scores when the kernel runs (TokenMask).
// The query heads of one key head (a group) are worked on together: a block of queries is copied to rows [i, g] of d
// elements, so that every product is tall and K and V are packed once a group. Row r belongs to query r / group.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/program/ops/attention_mask.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cpu {

struct AttentionSizes {
  int64_t batch, queries, keys, heads, kv_heads, dim;
  float scale;
  float softcap;  // 0: none

  explicit AttentionSizes(const ops::NodeView& view);

  int64_t group() const { return heads / kv_heads; }
  int64_t group_dim() const { return group() * dim; }
  int64_t query_stride() const { return heads * dim; }
  int64_t key_stride() const { return kv_heads * dim; }
  /// Element offsets into q-like [b,s,H,d], k-like [b,t,K,d] and lse [b,H,s].
  int64_t query_at(int64_t b, int64_t head, int64_t i) const { return ((b * queries + i) * heads + head) * dim; }
  int64_t key_at(int64_t b, int64_t kv_head, int64_t j) const { return ((b * keys + j) * kv_heads + kv_head) * dim; }
  int64_t lse_at(int64_t b, int64_t head, int64_t i) const { return (b * heads + head) * queries + i; }
};

/// cap tanh(x / cap), and the slope of it where that is x.
void cap_scores(float cap, float* x, int64_t n);
void cap_slopes(float cap, const float* capped, float* slopes, int64_t n);

/// A key head of one batch row with the query heads that read it.
struct HeadGroup {
  int64_t b, kv_head, first_head;

  /// `index` counts batch rows, then key heads.
  HeadGroup(const AttentionSizes& z, int64_t index)
      : b(index / z.kv_heads), kv_head(index % z.kv_heads), first_head(kv_head * z.group()) {}
};

/// A rectangle of the score matrix, trimmed to the keys that any of its queries sees.
struct Tile {
  int64_t query_begin, query_end, key_begin, key_end;
  bool masked;  // some pair inside is hidden

  int64_t queries() const { return query_end - query_begin; }
  int64_t width() const { return key_end - key_begin; }
};

/// Consecutive queries or keys.
struct TokenBlock {
  int64_t begin, end;  // positions

  int64_t size() const { return end - begin; }
};

/// Which blocks and tiles there are. Tiles are found when they are visited: their number grows with the square of the
/// sequence, the blocks' with its length.
class TilePlan {
 public:
  /// A tile is at most `key_block` keys wide. Of a `placed` node every tile is visited, as if all were visible.
  TilePlan(const ir::Attrs& attrs, const AttentionSizes& sizes, int64_t key_block);

  /// Most rows of a query block, all heads of the group counted.
  int64_t block_rows() const { return query_block_ * group_; }

  /// Most work first.
  const std::vector<TokenBlock>& query_blocks() const { return query_blocks_; }
  const std::vector<TokenBlock>& key_blocks() const { return key_blocks_; }

  /// Calls visit(Tile) for each tile with a visible pair: of a query block by ascending keys, of a key block by
  /// ascending queries.
  template <typename Visit>
  void for_each_tile_of_queries(const TokenBlock& queries, Visit&& visit) const {
    int64_t unvisited = 0;  // key block
    for (const ops::KeyRange keys : keys_seen_by(queries)) {
      if (keys.begin == keys.end) continue;
      int64_t at = std::max(unvisited, keys.begin / key_block_);
      for (; at * key_block_ < keys.end; ++at) visit_if_visible(queries, block_of(keys_, key_block_, at), visit);
      unvisited = at;
    }
  }
  template <typename Visit>
  void for_each_tile_of_keys(const TokenBlock& keys, Visit&& visit) const {
    const ops::KeyRange queries = mask_.queries_seeing({keys.begin, keys.end}, queries_);
    for (int64_t at = queries.begin / query_block_; at * query_block_ < queries.end; ++at)
      visit_if_visible(block_of(queries_, query_block_, at), keys, visit);
  }

  /// Columns of the tile that `query` sees: 0 <= [0].begin <= [0].end <= [1].begin <= [1].end <= width.
  std::array<ops::KeyRange, 2> visible_columns(const Tile& tile, int64_t query) const;

 private:
  static TokenBlock block_of(int64_t size, int64_t block, int64_t index) {
    return {index * block, std::min(size, (index + 1) * block)};
  }
  template <typename Visit>
  void visit_if_visible(const TokenBlock& queries, const TokenBlock& keys, Visit&& visit) const {
    Tile tile{queries.begin, queries.end, keys.begin, keys.end, true};
    if (trim(tile)) visit(tile);
  }

  std::array<ops::KeyRange, 2> keys_seen_by(const TokenBlock& queries) const;
  int64_t pairs_in_tiles(const TokenBlock& queries) const;
  bool trim(Tile& tile) const;

  ops::AttentionMask mask_;
  int64_t queries_, keys_, group_;
  int64_t query_block_, key_block_;
  std::vector<TokenBlock> query_blocks_, key_blocks_;
};

/// What tokens of one batch row hide by themselves: keys of another segment and, of a placed node, what the mask says
/// of their positions. Hides nothing when the op has neither.
class TokenMask {
 public:
  TokenMask(const ops::AttentionMask& mask, const ops::TokenOperands& tokens, const AttentionSizes& sizes,
            const KernelArgs& args, int64_t b);

  /// Trims the tile to the keys that its queries may see, and says how many of its pairs are visible.
  ops::Cover trim(Tile& tile) const;

  /// Scores of hidden keys become so low that their exponential is zero against any finite shift.
  void hide(const Tile& tile, int64_t query, float* scores) const;

 private:
  ops::Cover cover_of_positions(Tile& tile) const;
  ops::Cover cover_of_segments(const Tile& tile) const;

  const ops::AttentionMask& mask_;
  const int32_t* query_segments_ = nullptr;   // [s]
  const int32_t* key_segments_ = nullptr;     // [t]
  const int32_t* query_positions_ = nullptr;  // [s]
  const int32_t* key_positions_ = nullptr;    // [t]
};

/// Zero in the columns outside `visible`.
void clear_hidden(const std::array<ops::KeyRange, 2>& visible, int64_t width, float* row);

/// Zero in `rows` rows of `dim` elements.
void clear_rows(float* first, int64_t rows, int64_t dim, int64_t stride);

void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows, int64_t dim);

}  // namespace megacpp::runtime::cpu
