// SPDX-License-Identifier: Apache-2.0
// The table against asking the mask block by block and pair by pair.
#include "megacpp/program/ops/attention_block_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace megacpp::ops {
namespace {

/// Every combination of small parts.
std::vector<AttentionMask> all_small_masks() {
  std::vector<AttentionMask> masks;
  for (const bool causal : {false, true})
    for (const int64_t window : {0, 1, 2, 5, 9}) {
      masks.push_back({.causal = causal, .window = window});
      for (const int64_t sparse : {1, 2, 3, 7})
        for (const int64_t local : {0, 1, 3})
          for (const int64_t global : {0, 1, 2})
            masks.push_back({.causal = causal,
                             .window = window,
                             .sparse_block = sparse,
                             .sparse_local = local,
                             .sparse_global = global});
    }
  return masks;
}

PositionRange block_range(int64_t index, int64_t block, int64_t tokens) {
  return {index * block, std::min(tokens, (index + 1) * block) - 1};
}

bool sees_any(const AttentionMask& mask, PositionRange queries, PositionRange keys) {
  for (int64_t i = queries.low; i <= queries.high; ++i)
    for (int64_t j = keys.low; j <= keys.high; ++j)
      if (mask.visible(i, j)) return true;
  return false;
}

void expect_table_is_right(const AttentionMask& mask, int64_t tokens, int64_t block) {
  const AttentionBlockTable table(tokens, tokens, block, mask);
  int64_t pairs = 0;
  for (int64_t i = 0; i < table.query_blocks(); ++i) {
    std::vector<int64_t> listed, wanted;
    for (const KeyRange& range : table.seen(i))
      for (int64_t j = range.begin; j < range.end; ++j) listed.push_back(j);
    const PositionRange queries = block_range(i, block, tokens);
    for (int64_t j = 0; j < table.key_blocks(); ++j) {
      const PositionRange keys = block_range(j, block, tokens);
      if (mask.cover(queries, keys) != Cover::none) wanted.push_back(j);
      const bool is_wanted = !wanted.empty() && wanted.back() == j;
      EXPECT_TRUE(is_wanted || !sees_any(mask, queries, keys)) << "query block " << i << ", key block " << j;
      // Windows and sparse blocks each by itself leave nothing over.
      if (mask.window == 0 || mask.sparse_block == 0) {
        EXPECT_EQ(is_wanted, sees_any(mask, queries, keys)) << "query block " << i << ", key block " << j;
      }
    }
    EXPECT_EQ(listed, wanted) << "query block " << i;
    pairs += static_cast<int64_t>(wanted.size());
  }
  EXPECT_EQ(table.pairs(), pairs);
}

TEST(AttentionBlockTableTest, ListsTheBlocksThatTheMaskSees) {
  for (const AttentionMask& mask : all_small_masks())
    for (const int64_t block : {1, 2, 3, 4, 5})
      for (const int64_t tokens : {1, 2, 4, 7, 8, 12, 13}) {
        SCOPED_TRACE(testing::Message() << tokens << " tokens in blocks of " << block << ", causal " << mask.causal
                                        << ", window " << mask.window << ", sparse " << mask.sparse_block << " local "
                                        << mask.sparse_local << " global " << mask.sparse_global);
        expect_table_is_right(mask, tokens, block);
        if (testing::Test::HasFailure()) return;
      }
}

int64_t pairs_of(int64_t tokens, const AttentionMask& mask, std::optional<PlacedRuns> placed = std::nullopt) {
  return AttentionBlockTable(tokens, tokens, kAttentionBlock, mask, placed).pairs();
}

TEST(AttentionBlockTableTest, MasksCostWhatTheySee) {
  EXPECT_EQ(pairs_of(4096, {}), 64);
  EXPECT_EQ(pairs_of(4096, {.causal = true}), 36);
  // The block itself, the one before, and the first one.
  const AttentionMask sparse{.causal = true, .sparse_block = 512, .sparse_local = 2, .sparse_global = 1};
  EXPECT_EQ(pairs_of(4096, sparse), 1 + 2 + 6 * 3);
  EXPECT_EQ(pairs_of(131072, sparse), 1 + 2 + 254 * 3);
  // The 1023 keys before a query are in its own block and the two before that.
  EXPECT_EQ(pairs_of(32768, {.causal = true, .window = 1024}), 1 + 2 + 62 * 3);
  EXPECT_EQ(pairs_of(131072, {.causal = true}), 256 * 257 / 2);
}

TEST(AttentionBlockTableTest, OfPlacedTokensTheNumberIsExpected) {
  const PlacedRuns anywhere;
  EXPECT_EQ(pairs_of(8192, {}, anywhere), 256);
  EXPECT_EQ(pairs_of(8192, {.causal = true}, anywhere), 128);
  EXPECT_EQ(pairs_of(8192, {.causal = true, .window = 1024}, anywhere), 16 * 3);
  const AttentionMask sparse{.causal = true, .sparse_block = 256, .sparse_local = 2, .sparse_global = 2};
  EXPECT_EQ(pairs_of(8192, sparse, anywhere), 16 * 3);
}

// 16 chips that meet the runs of all.
TEST(AttentionBlockTableTest, RunsOfARingShareWhatTheSequenceSees) {
  const PlacedRuns ring{.sequence = 131072, .ring_steps = 16};
  EXPECT_EQ(pairs_of(8192, {}, ring), 256);
  EXPECT_EQ(pairs_of(8192, {.causal = true}, ring), 129) << "half, and a part of the diagonal";
  const AttentionMask window{.causal = true, .window = 1024};
  EXPECT_EQ(pairs_of(8192, window, ring), 3);
  EXPECT_EQ(pairs_of(8192, window, PlacedRuns{.sequence = 131072, .ring_steps = 2}), 24)
      << "of their own run and one more";
}

// Where no early run is paired with a late one the last chip sees all of the runs before its own.
TEST(AttentionBlockTableTest, OfRunsInOrderTheChipThatSeesMostCounts) {
  PlacedRuns ring{.sequence = 131072, .ring_steps = 16, .apart = 0};
  EXPECT_EQ(pairs_of(8192, {.causal = true}, ring), 16 * 17 / 2);
  ring.apart = 1;
  EXPECT_EQ(pairs_of(8192, {.causal = true}, ring), 256);
  EXPECT_EQ(pairs_of(8192, {.causal = true, .window = 1024}, ring), 1 + 2)
      << "what the first blocks see of the run before";
}

TEST(AttentionBlockTableTest, OfRunsInOrderBlocksAreThoseThatTheMaskSees) {
  constexpr int64_t kChips = 3, kTokens = 5;
  for (const AttentionMask& mask : all_small_masks())
    for (const int64_t block : {1, 2, 3})
      for (int64_t apart = 0; apart < kChips; ++apart) {
        const PlacedRuns ring{.sequence = kChips * kTokens, .ring_steps = kChips, .apart = apart};
        const AttentionBlockTable table(kTokens, kTokens, block, mask, ring);
        const auto of_run = [&](int64_t run, int64_t index) {
          const PositionRange range = block_range(index, block, kTokens);
          return PositionRange{run * kTokens + range.low, run * kTokens + range.high};
        };
        int64_t most = 0;
        for (int64_t chip = 0; chip < kChips; ++chip) {
          int64_t pairs = 0;
          for (int64_t i = 0; i < table.query_blocks(); ++i)
            for (int64_t j = 0; j < table.key_blocks(); ++j)
              pairs += mask.cover(of_run(chip, i), of_run((chip - apart + kChips) % kChips, j)) != Cover::none ? 1 : 0;
          most = std::max(most, pairs);
        }
        EXPECT_EQ(table.pairs(), most) << "blocks of " << block << ", " << apart << " apart, causal " << mask.causal
                                       << ", window " << mask.window << ", sparse " << mask.sparse_block << " local "
                                       << mask.sparse_local << " global " << mask.sparse_global;
        if (testing::Test::HasFailure()) return;
      }
}

/// Pairs of blocks that a chip computes with one run of keys, on average, where each has an early and a late run: by
/// the lowest and highest positions of its blocks, as the program finds them.
double balanced_pairs(const AttentionMask& mask, int64_t chips, int64_t tokens, int64_t block) {
  const int64_t run = tokens / 2;
  const auto position = [&](int64_t chip, int64_t token) {
    return token < run ? chip * run + token : (2 * chips - 1 - chip) * run + token - run;
  };
  const auto range_of = [&](int64_t chip, int64_t index) {
    PositionRange range{INT64_MAX, 0};
    for (int64_t token = index * block; token < std::min(tokens, (index + 1) * block); ++token)
      range = {std::min(range.low, position(chip, token)), std::max(range.high, position(chip, token))};
    return range;
  };
  const int64_t blocks = (tokens + block - 1) / block;
  int64_t pairs = 0;
  for (int64_t of_queries = 0; of_queries < chips; ++of_queries)
    for (int64_t of_keys = 0; of_keys < chips; ++of_keys)
      for (int64_t i = 0; i < blocks; ++i)
        for (int64_t j = 0; j < blocks; ++j)
          pairs += mask.cover(range_of(of_queries, i), range_of(of_keys, j)) != Cover::none ? 1 : 0;
  return static_cast<double>(pairs) / static_cast<double>(chips * chips);
}

// Also where the runs of a chip do not fill blocks, so that one has tokens of both.
TEST(AttentionBlockTableTest, SharesAreNearWhatBalancedRunsSee) {
  constexpr int64_t kBlock = 4;
  for (const int64_t chips : {2, 4, 8})
    for (int64_t tokens = 4; tokens < 48; tokens += 2) {
      const auto expect_near = [&](const AttentionMask& mask, double share) {
        const PlacedRuns ring{.sequence = chips * tokens, .ring_steps = chips};
        const double seen = balanced_pairs(mask, chips, tokens, kBlock);
        const auto planned = static_cast<double>(AttentionBlockTable(tokens, tokens, kBlock, mask, ring).pairs());
        EXPECT_NEAR(planned, seen, std::max(1.0, share * seen))
            << chips << " chips of " << tokens << ", window " << mask.window << ", sparse " << mask.sparse_block;
      };
      expect_near({}, 0);
      expect_near({.causal = true}, 0.1);
      expect_near({.causal = true, .window = 5}, 0.3);
      expect_near({.causal = true, .window = 12}, 0.3);
      expect_near({.causal = true, .sparse_block = 4, .sparse_local = 2, .sparse_global = 1}, 0.1);
    }
  EXPECT_EQ(pairs_of(1536, {.causal = true}, PlacedRuns{.sequence = 6144, .ring_steps = 4}), 6) << "of 9";
}

}  // namespace
}  // namespace megacpp::ops
