// SPDX-License-Identifier: Apache-2.0
// Which pairs of a block of queries and a block of keys a mask leaves something to compute for: what flash and splash
// attention call a block mask. Costs are counted from it, and the program that XLA gets works through the same pairs
// (blocked_attention_hlo.h), so the two agree.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "megacpp/program/ops/attention_mask.h"

namespace megacpp::ops {

/// Queries and keys of a block: 512 rows fill the matrix units of TPUs (256 wide) and GPUs, and the scores of a head
/// are 1 MiB. Smaller blocks skip more of what a mask hides, but move the sums of their queries more often.
inline constexpr int64_t kAttentionBlock = 512;

/// Tokens whose positions are known when the program runs: runs of a sequence.
struct PlacedRuns {
  int64_t sequence = 0;               // tokens of all of it; 0: not known
  int64_t ring_steps = 1;             // runs of keys that the queries meet, one node each
  std::optional<int64_t> apart = {};  // runs in order: so many before the queries' own, in the ring; absent: the runs
                                      // of a chip are an early and a late one, so that chips have alike much to do

  /// From the attributes `sequence`, `runs` and `apart`, which ring attention sets; nothing without `placed`.
  static std::optional<PlacedRuns> from(const ir::Attrs& attrs);

  /// Pairs of a node of so many queries and keys, by the mask alone. A step takes as long as its slowest chip: of runs
  /// in order the most of any, of others a chip's share of the whole sequence's.
  int64_t visible_pairs(const AttentionMask& mask, int64_t queries, int64_t keys) const;

  /// Of the ring, each with so many keys.
  int64_t chips(int64_t keys) const { return keys > 0 ? std::max<int64_t>(1, sequence / keys) : 1; }

  /// The most that `pairs(first query, first key)` says of any chip, of runs in order.
  int64_t most_of_chips(int64_t queries, int64_t keys, const std::function<int64_t(int64_t, int64_t)>& pairs) const;
};

class AttentionBlockTable {
 public:
  AttentionBlockTable(int64_t queries, int64_t keys, int64_t block, const AttentionMask& mask,
                      std::optional<PlacedRuns> placed = std::nullopt);

  int64_t query_blocks() const { return query_blocks_; }
  int64_t key_blocks() const { return key_blocks_; }

  /// Positions of the first query and the first key.
  struct Starts {
    int64_t query = 0, key = 0;
  };
  /// Blocks of keys that a block of queries sees, where both stand in order: two disjoint ascending ranges, either of
  /// which may be empty. Exactly those of which AttentionMask::cover is not none.
  std::array<KeyRange, 2> seen(int64_t query_block, Starts starts = {0, 0}) const;

  /// Pairs of blocks that are computed. Of placed tokens those of the chip that has most, as far as that is known: of
  /// runs in order counted, of others a chip's share of the whole sequence's, each run in blocks of its own; or where
  /// the sequence is not known, of runs from unknown places.
  int64_t pairs() const { return placed_ ? placed_pairs() : counted_pairs({}); }

 private:
  int64_t counted_pairs(Starts starts) const;
  int64_t placed_pairs() const;
  int64_t shared_pairs() const;
  int64_t expected_pairs() const;

  int64_t queries_, keys_, block_;
  int64_t query_blocks_, key_blocks_;
  AttentionMask mask_;
  std::optional<PlacedRuns> placed_;
};

}  // namespace megacpp::ops
