// SPDX-License-Identifier: Apache-2.0
// Which pairs of a block of queries and a block of keys a mask leaves something to compute for. Costs are counted from
// it, and the program that XLA gets works through the same pairs (blocked_attention_hlo.h), so the two agree.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "megacpp/ops/attention_mask.h"

namespace megacpp::ops {

/// Queries and keys of a block: 512 rows fill the matrix units of TPUs (256 wide) and GPUs, and the scores of a head
/// are 1 MiB. Smaller blocks skip more of what a mask hides, but move the sums of their queries more often.
inline constexpr int64_t kAttentionBlock = 512;

/// Tokens whose positions are known when the program runs: runs of a sequence.
struct PlacedRuns {
  int64_t sequence = 0;  // tokens of all of it; 0: not known
  int64_t met = 1;       // runs of keys that the queries meet, one node each

  /// From the attributes `sequence` and `runs`, which ring attention sets; nothing without `placed`.
  static std::optional<PlacedRuns> from(const ir::Attrs& attrs);
};

class AttentionBlockTable {
 public:
  AttentionBlockTable(int64_t queries, int64_t keys, int64_t block, const AttentionMask& mask,
                      std::optional<PlacedRuns> placed = std::nullopt);

  int64_t query_blocks() const { return query_blocks_; }
  int64_t key_blocks() const { return key_blocks_; }

  /// Blocks of keys that a block of queries sees, where both stand at positions 0, 1, ..: two disjoint ascending
  /// ranges, either of which may be empty. Exactly those of which AttentionMask::cover is not none.
  std::array<KeyRange, 2> seen(int64_t query_block) const;

  /// Pairs of blocks that are computed. Of placed tokens the number expected: a run's share of the whole sequence's, or
  /// where that is not known, of runs from unknown places.
  int64_t pairs() const { return placed_ ? expected_pairs() : counted_pairs(); }

 private:
  int64_t counted_pairs() const;
  int64_t expected_pairs() const;
  /// Blocks that hold any of the first so many positions, among those of the keys.
  int64_t blocks_before(int64_t position) const;

  int64_t queries_, keys_, block_;
  int64_t query_blocks_, key_blocks_;
  AttentionMask mask_;
  std::optional<PlacedRuns> placed_;
};

}  // namespace megacpp::ops
