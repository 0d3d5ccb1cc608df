// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/kernels/attention_blocks.h"

#include <algorithm>

#include "megacpp/runtime/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr float kHidden = -3e38F;  // minus any lse still finite

// Tall enough for products to reach their full speed, short enough to waste little on the diagonal of a causal mask.
int64_t query_block(int64_t group) {
  constexpr int64_t kRows = 128, kLeast = 16, kMost = 64;
  return std::clamp(kRows / group / kLeast * kLeast, kLeast, kMost);
}

int64_t work_of(const TileList& list) {
  int64_t pairs = 0;
  for (const Tile& tile : list.tiles) pairs += tile.queries() * tile.width();
  return pairs;
}

void most_work_first(std::vector<TileList>& lists) {
  std::stable_sort(lists.begin(), lists.end(),
                   [](const TileList& a, const TileList& b) { return work_of(a) > work_of(b); });
}

std::vector<TileList> blocks_of(int64_t size, int64_t block) {
  std::vector<TileList> lists;
  for (int64_t begin = 0; begin < size; begin += block) lists.push_back({begin, std::min(size, begin + block), {}});
  return lists;
}

}  // namespace

AttentionSizes::AttentionSizes(const ops::NodeView& view)
    : batch(view.operands[0].dim(0)),
      queries(view.operands[0].dim(1)),
      keys(view.operands[1].dim(1)),
      heads(view.operands[0].dim(2)),
      kv_heads(view.operands[1].dim(2)),
      dim(view.operands[0].dim(3)),
      scale(static_cast<float>(view.attrs.real("scale"))) {}

TilePlan::TilePlan(const ops::AttentionMask& mask, const AttentionSizes& sizes, int64_t key_block)
    : mask_(mask),
      keys_(sizes.keys),
      block_rows_(std::min(query_block(sizes.group()), sizes.queries) * sizes.group()),
      by_query_block_(blocks_of(sizes.queries, query_block(sizes.group()))),
      by_key_block_(blocks_of(sizes.keys, key_block)) {
  for (TileList& row : by_query_block_)
    for (TileList& column : by_key_block_) {
      Tile tile{row.begin, row.end, column.begin, column.end, true};
      if (!trim(tile)) continue;
      row.tiles.push_back(tile);
      column.tiles.push_back(tile);
    }
  most_work_first(by_query_block_);
  most_work_first(by_key_block_);
}

// False when nothing in the tile is visible.
bool TilePlan::trim(Tile& tile) const {
  int64_t first = tile.width(), last = 0, pairs = 0;
  for (int64_t query = tile.query_begin; query < tile.query_end; ++query)
    for (const ops::KeyRange columns : visible_columns(tile, query)) {
      if (columns.begin == columns.end) continue;
      first = std::min(first, columns.begin);
      last = std::max(last, columns.end);
      pairs += columns.end - columns.begin;
    }
  tile.key_end = tile.key_begin + last;
  tile.key_begin += first;
  tile.masked = pairs < tile.queries() * tile.width();
  return pairs > 0;
}

std::array<ops::KeyRange, 2> TilePlan::visible_columns(const Tile& tile, int64_t query) const {
  const int64_t width = tile.width();
  if (!tile.masked) return {ops::KeyRange{0, width}, ops::KeyRange{width, width}};
  std::array<ops::KeyRange, 2> columns = mask_.visible_keys(query, keys_);
  int64_t from = 0;
  for (ops::KeyRange& range : columns) {
    range.begin = std::clamp(range.begin - tile.key_begin, from, width);
    range.end = std::clamp(range.end - tile.key_begin, range.begin, width);
    from = range.end;
  }
  return columns;
}

SegmentCover segment_cover(const int32_t* segments, const Tile& tile) {
  if (segments == nullptr) return SegmentCover::same;
  const auto [query_low, query_high] = std::minmax_element(segments + tile.query_begin, segments + tile.query_end);
  const auto [key_low, key_high] = std::minmax_element(segments + tile.key_begin, segments + tile.key_end);
  if (*query_high < *key_low || *key_high < *query_low) return SegmentCover::disjoint;
  const bool one_each = *query_low == *query_high && *key_low == *key_high;
  return one_each ? SegmentCover::same : SegmentCover::mixed;
}

void hide_other_segments(const int32_t* segments, const Tile& tile, int64_t query, float* scores) {
  const int32_t own = segments[query];
  const int32_t* of_keys = segments + tile.key_begin;
  for (int64_t j = 0; j < tile.width(); ++j) scores[j] = of_keys[j] == own ? scores[j] : kHidden;
}

void clear_hidden(const std::array<ops::KeyRange, 2>& visible, int64_t width, float* row) {
  row_fill(0.0F, row, visible[0].begin);
  row_fill(0.0F, row + visible[0].end, visible[1].begin - visible[0].end);
  row_fill(0.0F, row + visible[1].end, width - visible[1].end);
}

void clear_rows(float* first, int64_t rows, int64_t dim, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row) row_fill(0.0F, first + row * stride, dim);
}

void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows, int64_t dim) {
  for (int64_t row = 0; row < rows; ++row) std::copy_n(from + row * from_stride, dim, to + row * to_stride);
}

}  // namespace megacpp::runtime::cpu
