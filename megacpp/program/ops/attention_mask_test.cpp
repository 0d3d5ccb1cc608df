// SPDX-License-Identifier: Apache-2.0
// What the mask says of ranges and of counts, against asking it pair by pair.
#include "megacpp/program/ops/attention_mask.h"

#include <gtest/gtest.h>

#include <vector>

namespace megacpp::ops {
namespace {

std::vector<AttentionMask> masks() {
  return {{},
          {.causal = true},
          {.causal = true, .window = 3},
          {.window = 2},
          {.causal = true, .sparse_block = 2, .sparse_local = 1, .sparse_global = 1},
          {.sparse_block = 3, .sparse_local = 2},
          {.sparse_block = 2, .sparse_global = 2},
          {.causal = true, .window = 5, .sparse_block = 2, .sparse_local = 2, .sparse_global = 1}};
}

int64_t pairs_seen(const AttentionMask& mask, PositionRange queries, PositionRange keys) {
  int64_t pairs = 0;
  for (int64_t i = queries.low; i <= queries.high; ++i)
    for (int64_t j = keys.low; j <= keys.high; ++j) pairs += mask.visible(i, j) ? 1 : 0;
  return pairs;
}

TEST(AttentionMaskTest, CoverOfRangesNeverContradictsThePairs) {
  for (const AttentionMask& mask : masks())
    for (int64_t query = 0; query < 10; ++query)
      for (int64_t key = 0; key < 10; ++key)
        for (const int64_t length : {1, 2, 4}) {
          const PositionRange queries{query, query + length - 1}, keys{key, key + 1};
          const int64_t seen = pairs_seen(mask, queries, keys);
          const Cover exact = seen == 0 ? Cover::none : seen == 2 * length ? Cover::all : Cover::some;
          const Cover cover = mask.cover(queries, keys);
          EXPECT_TRUE(cover == exact || cover == Cover::some) << query << " " << key << " " << length;
        }
}

TEST(AttentionMaskTest, CoverOfOnePairIsExact) {
  for (const AttentionMask& mask : masks())
    for (int64_t i = 0; i < 12; ++i)
      for (int64_t j = 0; j < 12; ++j)
        EXPECT_EQ(mask.cover({i, i}, {j, j}), mask.visible(i, j) ? Cover::all : Cover::none) << i << " " << j;
}

TEST(AttentionMaskTest, CountsEqualThePairs) {
  for (const AttentionMask& mask : masks())
    for (const int64_t queries : {1, 2, 5, 9, 12})
      for (const int64_t keys : {1, 3, 6, 9, 14})
        EXPECT_EQ(mask.visible_pairs(queries, keys), pairs_seen(mask, {0, queries - 1}, {0, keys - 1}))
            << queries << " queries, " << keys << " keys, window " << mask.window << ", block " << mask.sparse_block;
}

TEST(AttentionMaskTest, PairsOfRunsAreThoseOfTheirPositions) {
  for (const AttentionMask& mask : masks())
    for (const int64_t first_query : {0, 3, 8})
      for (const int64_t first_key : {0, 3, 8})
        EXPECT_EQ(mask.visible_pairs({first_query, first_query + 5}, {first_key, first_key + 4}),
                  pairs_seen(mask, {first_query, first_query + 4}, {first_key, first_key + 3}))
            << first_query << " to " << first_key << ", window " << mask.window << ", block " << mask.sparse_block;
}

TEST(AttentionMaskTest, QueriesThatSeeAKeyAreInTheRange) {
  for (const AttentionMask& mask : masks())
    for (int64_t key = 0; key < 12; ++key)
      for (const int64_t length : {1, 2, 5}) {
        const KeyRange range = mask.queries_seeing({key, key + length}, 12);
        for (int64_t query = 0; query < 12; ++query)
          if (pairs_seen(mask, {query, query}, {key, key + length - 1}) > 0) {
            EXPECT_TRUE(range.begin <= query && query < range.end) << query << " of " << key << " + " << length;
          }
      }
}

TEST(AttentionMaskTest, RunsFromUnknownPlacesAreExpectedToSeeHalfOrTheirWindow) {
  EXPECT_EQ((AttentionMask{}).expected_pairs(8, 16), 8 * 16);
  EXPECT_EQ((AttentionMask{.causal = true}).expected_pairs(8, 16), 8 * 16 / 2);
  EXPECT_EQ((AttentionMask{.causal = true, .window = 3}).expected_pairs(8, 16), 8 * 3);
  EXPECT_EQ(
      (AttentionMask{.causal = true, .sparse_block = 2, .sparse_local = 1, .sparse_global = 1}).expected_pairs(8, 16),
      8 * 4);
}

}  // namespace
}  // namespace megacpp::ops
