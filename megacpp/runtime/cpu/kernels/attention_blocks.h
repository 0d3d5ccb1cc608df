// SPDX-License-Identifier: Apache-2.0
// What the attention kernels share: sizes and strides on the [b,s,H,d] layout, the tiles of the score matrix that a
// mask leaves visible, and the treatment of hidden scores inside a tile. The score matrix itself never exists.
// What a mask hides is planned ahead where tokens stand in order; positions and segments that come as operands hide
// tiles, columns of a tile and single scores when the kernel runs (TokenMask).
// The query heads of one key head (a group) are worked on together: a block of queries is copied to rows [i, g] of d
// elements, so that every product is tall and K and V are packed once a group. Row r belongs to query r / group.
#pragma once

#include <array>
#include <vector>

#include "megacpp/ops/attention_mask.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cpu/kernel.h"

namespace megacpp::runtime::cpu {

struct AttentionSizes {
  int64_t batch, queries, keys, heads, kv_heads, dim;
  float scale;

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

/// Tiles of one query block or of one key block.
struct TileList {
  int64_t begin, end;  // of the block, in positions
  std::vector<Tile> tiles;
};

class TilePlan {
 public:
  /// A tile is at most `key_block` keys wide. Of a `placed` node every tile is planned, as if all were visible.
  TilePlan(const ir::Attrs& attrs, const AttentionSizes& sizes, int64_t key_block);

  /// Most rows of a query block, all heads of the group counted.
  int64_t block_rows() const { return block_rows_; }

  /// Most work first.
  const std::vector<TileList>& by_query_block() const { return by_query_block_; }
  const std::vector<TileList>& by_key_block() const { return by_key_block_; }

  /// Columns of the tile that `query` sees: 0 <= [0].begin <= [0].end <= [1].begin <= [1].end <= width.
  std::array<ops::KeyRange, 2> visible_columns(const Tile& tile, int64_t query) const;

 private:
  bool trim(Tile& tile) const;

  ops::AttentionMask mask_;
  int64_t keys_;
  int64_t block_rows_;
  std::vector<TileList> by_query_block_;
  std::vector<TileList> by_key_block_;
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
