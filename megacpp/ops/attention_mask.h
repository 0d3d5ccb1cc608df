// SPDX-License-Identifier: Apache-2.0
// Which keys a query sees, from the attributes of `attention`; every part is fixed by the shapes alone:
//   causal         key j <= query i
//   window         i - j < window (0: none)
//   sparse_block   blocks of that many positions (0: none): a query block sees the sparse_local nearest key blocks,
//                  its own included, and the first sparse_global key blocks
// A key is seen when all parts agree. Segments depend on data and come on top.
#pragma once

#include <array>
#include <cstdint>

#include "megacpp/ir/attrs.h"

namespace megacpp::ops {

/// lse of a query that sees nothing: finite, so that differences of it stay finite.
inline constexpr double kHiddenScore = -1e30;

struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

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

  int64_t visible_pairs(int64_t queries, int64_t keys) const;
};

}  // namespace megacpp::ops
