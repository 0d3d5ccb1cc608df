// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/attention_block_table.h"

namespace megacpp::ops {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::optional<PlacedRuns> PlacedRuns::from(const ir::Attrs& attrs) {
  if (!attrs.flag("placed")) return std::nullopt;
  PlacedRuns runs{.sequence = attrs.integer("sequence", 0), .ring_steps = attrs.integer("runs", 1)};
  if (attrs.has("apart")) runs.apart = attrs.integer("apart", 0);
  return runs;
}

int64_t PlacedRuns::most_of_chips(int64_t queries, int64_t keys,
                                  const std::function<int64_t(int64_t, int64_t)>& pairs) const {
  const int64_t ring = chips(keys);
  int64_t most = 0;
  for (int64_t chip = 0; chip < ring; ++chip)
    most = std::max(most, pairs(chip * queries, (chip - *apart + ring) % ring * keys));
  return most;
}

int64_t PlacedRuns::visible_pairs(const AttentionMask& mask, int64_t queries, int64_t keys) const {
  if (sequence == 0) return mask.expected_pairs(queries, keys);
  if (apart)
    return most_of_chips(queries, keys, [&](int64_t first_query, int64_t first_key) {
      return mask.visible_pairs({first_query, first_query + queries}, {first_key, first_key + keys});
    });
  const int64_t share = ceil_div(mask.visible_pairs(sequence, sequence), chips(keys) * ring_steps);
  return std::min(queries * keys, share);
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

// In positions from the first key on.
std::array<KeyRange, 2> AttentionBlockTable::seen(int64_t query_block, Starts starts) const {
  const int64_t low = starts.query + query_block * block_;
  const int64_t high = std::min(starts.query + queries_, low + block_) - 1;
  const auto block_of = [&](int64_t position) {  // from which on blocks hold that position or later ones
    const int64_t place = position - starts.key;
    return place >= keys_ ? key_blocks_ : std::max<int64_t>(0, place) / block_;
  };
  const auto blocks_before = [&](int64_t position) {  // that hold any of the positions before it
    return std::clamp<int64_t>(ceil_div(position - starts.key, block_), 0, key_blocks_);
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

int64_t AttentionBlockTable::counted_pairs(Starts starts) const {
  int64_t pairs = 0;
  for (int64_t block = 0; block < query_blocks_; ++block)
    for (const KeyRange& range : seen(block, starts)) pairs += range.end - range.begin;
  return pairs;
}

int64_t AttentionBlockTable::placed_pairs() const {
  if (placed_->sequence == 0) return expected_pairs();
  if (!placed_->apart) return shared_pairs();
  return placed_->most_of_chips(queries_, keys_, [this](int64_t first_query, int64_t first_key) {
    return counted_pairs({first_query, first_key});
  });
}

// Chips share what the whole sequence sees, each over the runs that it meets. An early and a late run of a chip stand
// one behind the other: where they do not fill blocks, one block has tokens of both. As queries it sees all blocks
// between the two, as keys it is seen by all of them: half of a chip's blocks, on average, each way. By a mask that is
// causal alone its late queries also see what is before its early ones, and its early keys are seen by what is behind
// its late ones.
int64_t AttentionBlockTable::shared_pairs() const {
  const int64_t all = query_blocks_ * key_blocks_, nodes = placed_->chips(keys_) * placed_->ring_steps;
  const auto of_sequence = [this](int64_t tokens) {
    return AttentionBlockTable(tokens, tokens, block_, mask_).pairs();
  };
  if (keys_ / 2 % block_ == 0) return std::min(all, ceil_div(of_sequence(placed_->sequence), nodes));
  const bool is_dense = mask_.window == 0 && mask_.sparse_block == 0;
  if (is_dense && !mask_.causal) return all;
  const int64_t others = key_blocks_ - 1;
  const int64_t halves = is_dense ? 3 * others + 2 : 2 * key_blocks_;  // twice the pairs that have the shared block
  const int64_t of_others = of_sequence(placed_->chips(keys_) * others * block_);
  return std::min(all, (2 * of_others + (halves + 1) * nodes) / (2 * nodes));
}

// As AttentionMask::expected_pairs: a causal query sees half of the keys, and never more than its window or its sparse
// blocks reach; a reach that begins anywhere touches one block more than it fills.
int64_t AttentionBlockTable::expected_pairs() const {
  const int64_t all = query_blocks_ * key_blocks_;
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
