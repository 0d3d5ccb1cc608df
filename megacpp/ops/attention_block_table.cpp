// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/attention_block_table.h"

#include <algorithm>

namespace megacpp::ops {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::optional<PlacedRuns> PlacedRuns::from(const ir::Attrs& attrs) {
  if (!attrs.flag("placed")) return std::nullopt;
  return PlacedRuns{attrs.integer("sequence", 0), attrs.integer("runs", 1)};
}

AttentionBlockTable::AttentionBlockTable(int64_t queries, int64_t keys, int64_t block, const AttentionMask& mask,
                                         std::optional<PlacedRuns> placed)
    : queries_(queries),
      keys_(keys),
      block_(block),
      query_blocks_(ceil_div(queries, block)),
      key_blocks_(ceil_div(keys, block)),
      mask_(mask),
      placed_(placed) {}

int64_t AttentionBlockTable::blocks_before(int64_t position) const {
  return std::clamp<int64_t>(ceil_div(position, block_), 0, key_blocks_);
}

std::array<KeyRange, 2> AttentionBlockTable::seen(int64_t query_block) const {
  const int64_t low = query_block * block_, high = std::min(queries_, low + block_) - 1;
  const auto block_of = [this](int64_t position) {  // from which on blocks hold that position or later ones
    return position >= keys_ ? key_blocks_ : std::max<int64_t>(0, position) / block_;
  };
  KeyRange band{0, key_blocks_};
  if (mask_.causal) band.end = blocks_before(high + 1);
  if (mask_.window > 0) band.begin = block_of(low - mask_.window + 1);
  if (mask_.sparse_block == 0) return {intersect(band, {0, key_blocks_}), KeyRange{}};
  const int64_t sparse = mask_.sparse_block;
  const KeyRange global{0, blocks_before(mask_.sparse_global * sparse)};
  KeyRange local{};
  if (mask_.sparse_local > 0)
    local = {block_of((low / sparse - mask_.sparse_local + 1) * sparse),
             blocks_before((high / sparse + mask_.sparse_local) * sparse)};
  local.begin = std::max(local.begin, global.end);
  return {intersect(band, global), intersect(band, local)};
}

int64_t AttentionBlockTable::counted_pairs() const {
  int64_t pairs = 0;
  for (int64_t block = 0; block < query_blocks_; ++block)
    for (const KeyRange& range : seen(block)) pairs += range.end - range.begin;
  return pairs;
}

// Chips share what the whole sequence sees, each over the runs that it meets. Else as AttentionMask::expected_pairs: a
// causal query sees half of the keys, and never more than its window or its sparse
// blocks reach; a reach that begins anywhere touches one block more than it fills.
int64_t AttentionBlockTable::expected_pairs() const {
  const int64_t all = query_blocks_ * key_blocks_;
  if (placed_->sequence > 0) {
    const AttentionBlockTable whole(placed_->sequence, placed_->sequence, block_, mask_);
    return std::min(all, ceil_div(whole.pairs() * queries_, placed_->sequence * placed_->met));
  }
  int64_t pairs = mask_.causal ? ceil_div(all, 2) : all;
  const auto at_most = [&](int64_t key_blocks) { pairs = std::min(pairs, query_blocks_ * key_blocks); };
  if (mask_.causal && mask_.window > 0) at_most(ceil_div(mask_.window - 1, block_) + 1);
  if (mask_.sparse_block > 0) {
    const int64_t local = mask_.causal ? mask_.sparse_local : std::max<int64_t>(0, 2 * mask_.sparse_local - 1);
    at_most(ceil_div(mask_.sparse_global * mask_.sparse_block, block_) +
            (local > 0 ? ceil_div(local * mask_.sparse_block, block_) + 1 : 0));
  }
  return pairs;
}

}  // namespace megacpp::ops
