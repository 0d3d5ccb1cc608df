// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/kernels/attention_blocks.h"

#include <limits>
#include <utility>

#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr float kHidden = -3e38F;  // minus any lse still finite

// Tall enough for products to reach their full speed, short enough to waste little on the diagonal of a causal mask.
int64_t query_block(int64_t group) {
  constexpr int64_t kRows = 128, kLeast = 16, kMost = 64;
  return std::clamp(kRows / group / kLeast * kLeast, kLeast, kMost);
}

std::vector<TokenBlock> blocks_of(int64_t size, int64_t block) {
  std::vector<TokenBlock> blocks;
  for (int64_t begin = 0; begin < size; begin += block) blocks.push_back({begin, std::min(size, begin + block)});
  return blocks;
}

// The work of a block is a function of the block.
template <typename Work>
void most_work_first(std::vector<TokenBlock>& blocks, Work&& work_of) {
  std::vector<std::pair<int64_t, TokenBlock>> by_work;
  for (const TokenBlock& block : blocks) by_work.emplace_back(work_of(block), block);
  std::stable_sort(by_work.begin(), by_work.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::transform(by_work.begin(), by_work.end(), blocks.begin(), [](const auto& entry) { return entry.second; });
}

ops::PositionRange range_of(const int32_t* first, const int32_t* end) {
  int32_t low = *first, high = *first;
  for (const int32_t* at = first; at != end; ++at) {
    low = std::min(low, *at);
    high = std::max(high, *at);
  }
  return {low, high};
}

}  // namespace

AttentionSizes::AttentionSizes(const ops::NodeView& view)
    : batch(view.operands[0].dim(0)),
      queries(view.operands[0].dim(1)),
      keys(view.operands[1].dim(1)),
      heads(view.operands[0].dim(2)),
      kv_heads(view.operands[1].dim(2)),
      dim(view.operands[0].dim(3)),
      scale(static_cast<float>(view.attrs.real("scale"))),
      softcap(static_cast<float>(view.attrs.real("softcap", 0))) {}

TilePlan::TilePlan(const ir::Attrs& attrs, const AttentionSizes& sizes, int64_t key_block)
    : mask_(attrs.flag("placed") ? ops::AttentionMask{} : ops::AttentionMask::from(attrs)),
      queries_(sizes.queries),
      keys_(sizes.keys),
      group_(sizes.group()),
      query_block_(std::min(query_block(sizes.group()), sizes.queries)),
      key_block_(key_block),
      query_blocks_(blocks_of(queries_, query_block_)),
      key_blocks_(blocks_of(keys_, key_block_)) {
  most_work_first(query_blocks_, [&](const TokenBlock& queries) { return pairs_in_tiles(queries); });
  most_work_first(key_blocks_, [&](const TokenBlock& keys) {
    const ops::KeyRange queries = mask_.queries_seeing({keys.begin, keys.end}, queries_);
    return (queries.end - queries.begin) * keys.size();
  });
}

// Each of the two ranges without gaps: what neighbouring queries see overlaps or touches.
std::array<ops::KeyRange, 2> TilePlan::keys_seen_by(const TokenBlock& queries) const {
  std::array<ops::KeyRange, 2> seen{};
  for (int64_t query = queries.begin; query < queries.end; ++query) {
    const std::array<ops::KeyRange, 2> keys = mask_.visible_keys(query, keys_);
    for (size_t part = 0; part < seen.size(); ++part) {
      if (keys[part].begin == keys[part].end) continue;
      const bool is_first = seen[part].begin == seen[part].end;
      seen[part].begin = is_first ? keys[part].begin : std::min(seen[part].begin, keys[part].begin);
      seen[part].end = std::max(seen[part].end, keys[part].end);
    }
  }
  return seen;
}

// Of the trimmed tiles: a tile that holds the end of the first range and the start of the second spans what is between.
int64_t TilePlan::pairs_in_tiles(const TokenBlock& queries) const {
  const auto [first, second] = keys_seen_by(queries);
  int64_t keys = (first.end - first.begin) + (second.end - second.begin);
  const bool both = first.begin < first.end && second.begin < second.end;
  if (both && (first.end - 1) / key_block_ == second.begin / key_block_) keys += second.begin - first.end;
  return queries.size() * keys;
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

TokenMask::TokenMask(const ops::AttentionMask& mask, const ops::TokenOperands& tokens, const AttentionSizes& sizes,
                     const KernelArgs& args, int64_t b)
    : mask_(mask) {
  if (tokens.documents) {
    query_segments_ = args.in<int32_t>(tokens.query_segments()) + b * sizes.queries;
    key_segments_ = args.in<int32_t>(tokens.key_segments()) + b * sizes.keys;
  }
  if (tokens.placed) {
    query_positions_ = args.in<int32_t>(tokens.query_positions());
    key_positions_ = args.in<int32_t>(tokens.key_positions());
  }
}

ops::Cover TokenMask::trim(Tile& tile) const {
  const ops::Cover by_position = query_positions_ == nullptr ? ops::Cover::all : cover_of_positions(tile);
  if (by_position == ops::Cover::none || query_segments_ == nullptr) return by_position;
  return std::min(by_position, cover_of_segments(tile));
}

// Keys at either end that no query sees are cut off: what is left of an ordered run is as narrow as if planned.
ops::Cover TokenMask::cover_of_positions(Tile& tile) const {
  const ops::PositionRange queries = range_of(query_positions_ + tile.query_begin, query_positions_ + tile.query_end);
  const auto cover_of_keys = [&] {
    return mask_.cover(queries, range_of(key_positions_ + tile.key_begin, key_positions_ + tile.key_end));
  };
  const ops::Cover cover = cover_of_keys();
  if (cover != ops::Cover::some) return cover;
  const auto is_seen = [&](int64_t key) {
    const int64_t position = key_positions_[key];
    return mask_.cover(queries, {position, position}) != ops::Cover::none;
  };
  while (tile.width() > 0 && !is_seen(tile.key_begin)) ++tile.key_begin;
  while (tile.width() > 0 && !is_seen(tile.key_end - 1)) --tile.key_end;
  return tile.width() > 0 ? cover_of_keys() : ops::Cover::none;
}

ops::Cover TokenMask::cover_of_segments(const Tile& tile) const {
  const ops::PositionRange queries = range_of(query_segments_ + tile.query_begin, query_segments_ + tile.query_end);
  const ops::PositionRange keys = range_of(key_segments_ + tile.key_begin, key_segments_ + tile.key_end);
  if (queries.high < keys.low || keys.high < queries.low) return ops::Cover::none;
  const bool one_each = queries.low == queries.high && keys.low == keys.high;
  return one_each ? ops::Cover::all : ops::Cover::some;
}

void TokenMask::hide(const Tile& tile, int64_t query, float* scores) const {
  const int64_t width = tile.width();
  if (query_segments_ != nullptr) {
    const int32_t own = query_segments_[query];
    const int32_t* of_keys = key_segments_ + tile.key_begin;
    for (int64_t j = 0; j < width; ++j) scores[j] = of_keys[j] == own ? scores[j] : kHidden;
  }
  if (query_positions_ == nullptr) return;
  const int32_t own = query_positions_[query];
  const int32_t* of_keys = key_positions_ + tile.key_begin;
  // Positions are not negative, so neither bound overflows.
  const int32_t last = mask_.causal ? own : std::numeric_limits<int32_t>::max();
  const int32_t first = mask_.window > 0 ? static_cast<int32_t>(own - std::min<int64_t>(own, mask_.window - 1)) : 0;
  for (int64_t j = 0; j < width; ++j) scores[j] = of_keys[j] >= first && of_keys[j] <= last ? scores[j] : kHidden;
  if (mask_.sparse_block == 0) return;
  for (int64_t j = 0; j < width; ++j) scores[j] = mask_.visible(own, of_keys[j]) ? scores[j] : kHidden;
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

void cap_scores(float cap, float* x, int64_t n) {
  row_scale(1.0F / cap, x, x, n);
  row_tanh(x, x, n);
  row_scale(cap, x, x, n);
}

void cap_slopes(float cap, const float* capped, float* slopes, int64_t n) {
  row_mul(capped, capped, slopes, n);
  row_scale(-1.0F / (cap * cap), slopes, slopes, n);
  row_offset(1.0F, slopes, slopes, n);
}

}  // namespace megacpp::runtime::cpu
