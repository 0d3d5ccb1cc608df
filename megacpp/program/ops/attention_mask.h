// SPDX-License-Identifier: Apache-2.0
// Which keys a query sees, from the attributes of `attention`; every part is a function of the positions of the two in
// time, which are at least 0:
//   causal         key j <= query i
//   window         i - j < window (0: none)
//   sparse_block   blocks of that many positions (0: none): a query block sees the sparse_local nearest key blocks,
//                  its own included, and the first sparse_global key blocks
// A key is seen when all parts agree. Segments depend on data and come on top.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "megacpp/core/ir/attrs.h"

namespace megacpp::ops {

/// lse of a query that sees nothing: finite, so that differences of it stay finite.
inline constexpr double kHiddenScore = -1e30;

struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

/// What is in both, empty at the later begin where nothing is.
KeyRange intersect(KeyRange a, KeyRange b);

/// Positions low to high, both included.
struct PositionRange {
  int64_t low = 0;
  int64_t high = 0;
};

/// How many pairs of some queries and some keys are visible.
enum class Cover : uint8_t { none, some, all };

struct AttentionMask {
  bool causal = false;
  int64_t window = 0;
  int64_t sparse_block = 0;
  int64_t sparse_local = 0;
  int64_t sparse_global = 0;

  static AttentionMask from(const ir::Attrs& attrs);

  bool visible(int64_t query, int64_t key) const;

  /// The keys of [0, keys) that `query` sees: two disjoint ascending ranges, either of which may be empty.
  std::array<KeyRange, 2> visible_keys(int64_t query, int64_t keys) const;

  /// Every query of [0, queries) that sees one of `keys` is in the range; not all in it need to.
  KeyRange queries_seeing(KeyRange keys, int64_t queries) const;

  /// Of queries and keys anywhere in these ranges. `none` and `all` are certain, `some` is not.
  Cover cover(PositionRange queries, PositionRange keys) const;

  /// Pairs where both sides stand at positions 0, 1, ..
  int64_t visible_pairs(int64_t queries, int64_t keys) const { return visible_pairs({0, queries}, {0, keys}); }
  /// Pairs of these positions.
  int64_t visible_pairs(KeyRange queries, KeyRange keys) const;
  /// The same for runs from unknown places: a causal query sees half of the keys, and never more than its window or its
  /// sparse blocks hold.
  int64_t expected_pairs(int64_t queries, int64_t keys) const;

 private:
  /// As visible_keys, by sparse blocks alone.
  std::array<KeyRange, 2> sparse_keys(int64_t query, int64_t keys) const;
  /// Visible pairs of queries that see all of `keys` by sparse blocks.
  int64_t pairs_in(KeyRange queries, KeyRange keys) const;
};

/// Where the operands that describe tokens stand, behind `first` others: i32 segments of the queries [b,s] and of the
/// keys [b,t] with the attribute `documents`, then i32 positions of the queries [s] and of the keys [t] with `placed`;
/// behind them, of `attention` alone, f32 scores of a sink for each head [H] with `sinks`.
struct TokenOperands {
  size_t first = 0;
  bool documents = false;
  bool placed = false;
  bool sinks = false;

  static TokenOperands behind(size_t first, const ir::Attrs& attrs) {
    return {first, attrs.flag("documents"), attrs.flag("placed"), attrs.flag("sinks")};
  }

  size_t query_segments() const { return first; }
  size_t key_segments() const { return first + 1; }
  size_t query_positions() const { return first + (documents ? 2 : 0); }
  size_t key_positions() const { return query_positions() + 1; }
  size_t sink_scores() const { return query_positions() + (placed ? 2 : 0); }
  size_t end() const { return sink_scores() + (sinks ? 1 : 0); }
};

/// How many operands stand before them: q, k, v, and in the gradient out, lse, dout.
inline constexpr size_t kAttentionOperands = 3;
inline constexpr size_t kAttentionGradOperands = 6;

}  // namespace megacpp::ops
