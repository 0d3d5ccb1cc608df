// SPDX-License-Identifier: Apache-2.0
// The tiles that a plan visits, against every pair of a small score matrix.
#include "megacpp/machine/cpu/kernels/attention_blocks.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace megacpp::runtime::cpu {
namespace {

struct TileCase {
  std::string name;
  int64_t queries, keys, key_block;
  ops::AttentionMask mask;
};

void PrintTo(const TileCase& c, std::ostream* out) { *out << c.name; }

ir::Attrs attrs_of(const ops::AttentionMask& mask) {
  return {{"causal", int64_t{mask.causal}},      {"window", mask.window},
          {"sparse_block", mask.sparse_block},   {"sparse_local", mask.sparse_local},
          {"sparse_global", mask.sparse_global}, {"scale", 1.0}};
}

class TilePlanTest : public testing::TestWithParam<TileCase> {
 protected:
  TilePlanTest() {
    const ops::Types types = {{ir::DType::f32, {1, GetParam().queries, 2, 4}},
                              {ir::DType::f32, {1, GetParam().keys, 1, 4}}};
    const ir::Attrs attrs = attrs_of(GetParam().mask);
    const AttentionSizes sizes({types, types, attrs});
    plan_ = std::make_unique<TilePlan>(attrs, sizes, GetParam().key_block);
  }

  // The tile's visible keys from the first to the last, and whether all pairs in between are visible.
  Tile slow_trim(Tile tile) const {
    int64_t first = tile.key_end, last = tile.key_begin, pairs = 0;
    for (int64_t query = tile.query_begin; query < tile.query_end; ++query)
      for (int64_t key = tile.key_begin; key < tile.key_end; ++key) {
        if (!mask_.visible(query, key)) continue;
        first = std::min(first, key);
        last = std::max(last, key + 1);
        ++pairs;
      }
    tile.key_begin = first;
    tile.key_end = std::max(first, last);
    tile.masked = pairs < tile.queries() * tile.width();
    return tile;
  }

  static std::string text(const Tile& tile) {
    return std::to_string(tile.query_begin) + "-" + std::to_string(tile.query_end) + " x " +
           std::to_string(tile.key_begin) + "-" + std::to_string(tile.key_end) + (tile.masked ? " masked" : "");
  }

  std::vector<std::string> slow_tiles(const std::vector<TokenBlock>& queries,
                                      const std::vector<TokenBlock>& keys) const {
    std::vector<std::string> tiles;
    for (const TokenBlock& q : queries)
      for (const TokenBlock& k : keys)
        if (const Tile tile = slow_trim({q.begin, q.end, k.begin, k.end, true}); tile.width() > 0)
          tiles.push_back(text(tile));
    return tiles;
  }

  static std::vector<TokenBlock> in_order(std::vector<TokenBlock> blocks) {
    std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return blocks;
  }

  ops::AttentionMask mask_ = GetParam().mask;
  std::unique_ptr<TilePlan> plan_;
};

TEST_P(TilePlanTest, VisitsTheVisibleTilesOfEachBlockInOrder) {
  for (const TokenBlock& queries : plan_->query_blocks()) {
    std::vector<std::string> visited;
    plan_->for_each_tile_of_queries(queries, [&](const Tile& tile) { visited.push_back(text(tile)); });
    EXPECT_EQ(visited, slow_tiles({queries}, in_order(plan_->key_blocks())));
  }
  for (const TokenBlock& keys : plan_->key_blocks()) {
    std::vector<std::string> visited;
    plan_->for_each_tile_of_keys(keys, [&](const Tile& tile) { visited.push_back(text(tile)); });
    EXPECT_EQ(visited, slow_tiles(in_order(plan_->query_blocks()), {keys}));
  }
}

// The order decides in which order a task that makes several blocks sums: it must not change.
TEST_P(TilePlanTest, QueryBlocksWithMostPairsInTheirTilesComeFirst) {
  const auto pairs_of = [&](const TokenBlock& queries) {
    int64_t pairs = 0;
    plan_->for_each_tile_of_queries(queries, [&](const Tile& tile) { pairs += tile.queries() * tile.width(); });
    return pairs;
  };
  std::vector<TokenBlock> expected = in_order(plan_->query_blocks());
  std::stable_sort(expected.begin(), expected.end(),
                   [&](const auto& a, const auto& b) { return pairs_of(a) > pairs_of(b); });
  ASSERT_EQ(expected.size(), plan_->query_blocks().size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(plan_->query_blocks()[i].begin, expected[i].begin) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Masks, TilePlanTest,
    testing::Values(
        TileCase{"none", 200, 300, 64, {}}, TileCase{"causal", 330, 330, 64, {.causal = true}},
        TileCase{"causal_more_keys", 130, 400, 64, {.causal = true}},
        TileCase{"causal_more_queries", 400, 130, 64, {.causal = true}},
        TileCase{"window", 330, 330, 64, {.causal = true, .window = 70}},
        TileCase{"narrow_window", 330, 200, 64, {.causal = true, .window = 1}},
        TileCase{"window_both_ways", 330, 330, 64, {.window = 90}},
        TileCase{"sparse", 600, 600, 64, {.causal = true, .sparse_block = 24, .sparse_local = 3, .sparse_global = 2}},
        TileCase{"sparse_both_ways", 600, 600, 64, {.sparse_block = 24, .sparse_local = 3, .sparse_global = 2}},
        TileCase{"sparse_window",
                 600,
                 600,
                 64,
                 {.causal = true, .window = 100, .sparse_block = 24, .sparse_local = 3, .sparse_global = 2}},
        TileCase{"sparse_local_only", 600, 600, 64, {.causal = true, .sparse_block = 40, .sparse_local = 1}},
        TileCase{"sparse_global_only", 600, 600, 64, {.causal = true, .sparse_block = 40, .sparse_global = 2}},
        TileCase{"sparse_wide_blocks",
                 600,
                 600,
                 64,
                 {.causal = true, .sparse_block = 200, .sparse_local = 1, .sparse_global = 1}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace megacpp::runtime::cpu
