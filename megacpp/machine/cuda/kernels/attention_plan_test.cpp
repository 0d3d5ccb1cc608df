// SPDX-License-Identifier: Apache-2.0
// The device's arithmetic of masks against that of the op, workspaces, launches and what is refused.
#include "megacpp/machine/cuda/kernels/attention_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "megacpp/machine/cuda/kernels/attention_wgmma.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;

std::vector<ops::AttentionMask> masks() {
  std::vector<ops::AttentionMask> list;
  for (const bool causal : {false, true})
    for (const int64_t window : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{100}, kHuge})
      for (const int64_t block : {int64_t{0}, int64_t{3}, kHuge})
        for (const int64_t local : {int64_t{0}, int64_t{2}})
          for (const int64_t global : {int64_t{0}, int64_t{1}, kHuge})
            list.push_back({.causal = causal,
                            .window = window,
                            .sparse_block = block,
                            .sparse_local = local,
                            .sparse_global = global});
  return list;
}

// A node of batch row `batch` and heads 4 over 2, queries and keys in order.
struct Node {
  Node(int64_t batch, int64_t tokens, int64_t dim, ir::Attrs attributes = {})
      : operands{{ir::DType::bf16, {batch, tokens, 4, dim}},
                 {ir::DType::bf16, {batch, tokens, 2, dim}},
                 {ir::DType::bf16, {batch, tokens, 2, dim}}},
        attrs(std::move(attributes)) {
    attrs.set("scale", 0.5);
  }
  ops::NodeView view() const { return {operands, operands, attrs}; }

  ops::Types operands;
  ir::Attrs attrs;
};

TEST(AttentionPlanTest, DeviceSeesWhatTheOpSees) {
  for (const ops::AttentionMask& mask : masks()) {
    const TileMask tile = tile_mask(mask);
    for (int32_t query = 0; query < 14; ++query)
      for (int32_t key = 0; key < 14; ++key) ASSERT_EQ(tile.visible(query, key), mask.visible(query, key));
  }
}

TEST(AttentionPlanTest, TilesAreCoveredAsTheOpSays) {
  for (const ops::AttentionMask& mask : masks())
    for (int32_t query = 0; query < 12; query += 3)
      for (int32_t key = 0; key < 12; ++key)
        for (int32_t width = 0; width < 5; ++width) {
          const LabelRange queries{query, query + 3}, keys{key, key + width};
          const ops::Cover wanted = mask.cover({query, query + 3}, {key, key + width});
          ASSERT_EQ(static_cast<int>(tile_mask(mask).cover_of_positions(queries, keys)), static_cast<int>(wanted));
        }
}

TEST(AttentionPlanTest, SegmentsHideTiles) {
  const TileMask all{};
  const auto cover = [&](LabelRange queries, LabelRange keys) {
    return all.cover({.positions = {0, 9}, .segments = queries}, {.positions = {0, 9}, .segments = keys});
  };
  EXPECT_EQ(cover({1, 1}, {1, 1}), TileCover::all);
  EXPECT_EQ(cover({0, 1}, {1, 1}), TileCover::some);
  EXPECT_EQ(cover({0, 1}, {2, 3}), TileCover::none);
  EXPECT_EQ(cover({4, 5}, {2, 3}), TileCover::none);
}

// Every visible pair lies in blocks that are visited, seen from queries and from keys.
TEST(AttentionPlanTest, VisitedBlocksHoldWhatIsVisible) {
  constexpr int32_t kTokens = 40, kBlock = 8;
  for (const ops::AttentionMask& mask : masks()) {
    TileVisibility visibility{};
    visibility.shape = {
        .batch = 1, .queries = kTokens, .keys = kTokens, .heads = 1, .kv_heads = 1, .dim = 4, .scale = 1};
    visibility.mask = tile_mask(mask);
    for (int32_t query = 0; query < kTokens; ++query)
      for (int32_t key = 0; key < kTokens; ++key) {
        if (!visibility.visible(0, query, key)) continue;
        const int32_t query_block = query / kBlock, key_block = key / kBlock;
        const BlockRange keys = visibility.key_blocks(query_block * kBlock, (query_block + 1) * kBlock, kBlock);
        const BlockRange queries = visibility.query_blocks(key_block * kBlock, (key_block + 1) * kBlock, kBlock);
        ASSERT_TRUE(keys.begin <= key_block && key_block < keys.end);
        ASSERT_TRUE(queries.begin <= query_block && query_block < queries.end);
      }
  }
}

TEST(AttentionPlanTest, CausalTilesBeyondTheDiagonalAreNotVisited) {
  TileVisibility visibility{};
  visibility.shape = {.batch = 1, .queries = 1024, .keys = 1024, .heads = 1, .kv_heads = 1, .dim = 64, .scale = 1};
  visibility.mask = {.causal = 1, .window = 128, .sparse_block = 0, .sparse_local = 0, .sparse_global = 0};
  const BlockRange keys = visibility.key_blocks(512, 576, 64), queries = visibility.query_blocks(512, 576, 64);
  EXPECT_EQ(keys.begin, 6);  // key 385 is the first that query 512 sees
  EXPECT_EQ(keys.end, 9);
  EXPECT_EQ(queries.begin, 8);
  EXPECT_EQ(queries.end, 11);  // query 702 is the last that sees key 575
}

TEST(AttentionPlanTest, RangesAreBookedWhereTokensAreDescribed) {
  const Node plain(2, 65, 64), packed(2, 65, 64, {{"documents", int64_t{1}}});
  EXPECT_EQ(AttentionPlan(plain.view(), ops::kAttentionOperands).token_range_bytes(), 0);
  // Two batch rows of two blocks of queries and two of keys.
  EXPECT_EQ(AttentionPlan(packed.view(), ops::kAttentionOperands).token_range_bytes(), kAlignment);
  EXPECT_EQ(AttentionPlan(plain.view(), ops::kAttentionOperands).row_statistic_bytes(), 2304);  // of 2080
}

TEST(AttentionPlanTest, LaunchesCoverTokensHeadsAndColumns) {
  const Node node(3, 130, 100);
  const AttentionPlan plan(node.view(), ops::kAttentionOperands);
  EXPECT_EQ(plan.dtype(), "bf16");
  EXPECT_EQ(plan.query_launch().grid[0], 3U * 3U * 4U * 2U);  // blocks, batch rows, heads, chunks of 64 columns
  EXPECT_EQ(plan.key_launch().grid[0], 3U * 3U * 2U * 2U);
  EXPECT_EQ(plan.row_launch().grid[0], 3U * 130U * 4U / 8U);
}

TEST(AttentionPlanTest, TensorCoresTakeTheirHeadWidths) {
  const auto plan = [](const Node& node) { return AttentionPlan(node.view(), ops::kAttentionOperands); };
  EXPECT_TRUE(plan(Node(1, 100, 64)).uses_tensor_cores());
  EXPECT_TRUE(plan(Node(1, 100, 128)).uses_tensor_cores());
  EXPECT_FALSE(plan(Node(1, 100, 96)).uses_tensor_cores());
  EXPECT_FALSE(plan(Node(1, 0, 64)).uses_tensor_cores());
  Node single(1, 100, 64), negative(1, 100, 64);
  for (ir::TensorType& type : single.operands) type.dtype = ir::DType::f32;
  negative.attrs.set("scale", -1.0);
  EXPECT_FALSE(plan(single).uses_tensor_cores());
  EXPECT_FALSE(plan(negative).uses_tensor_cores());
  EXPECT_TRUE(plan(Node(1, 100, 64, {{"window", int64_t{3}}})).is_band());
  EXPECT_FALSE(plan(Node(1, 100, 64, {{"sparse_block", int64_t{3}}})).is_band());
  EXPECT_FALSE(plan(Node(1, 100, 64, {{"documents", int64_t{1}}})).is_band());
}

// Statistics and sums of whole tiles of queries, 128 of 64 columns or 64 of 128.
TEST(AttentionPlanTest, GradientBooksSumsOfWholeTiles) {
  const auto bytes = [](const Node& node) {
    return attention_grad_wgmma_bytes(AttentionPlan(node.view(), ops::kAttentionGradOperands));
  };
  const int64_t rows = 2 * 4 * 256, counters = 2 * kAlignment;
  EXPECT_EQ(bytes(Node(2, 130, 64)), rows * 4 * (2 + 64) + counters);
  EXPECT_EQ(bytes(Node(2, 200, 128)), rows * 4 * (2 + 128) + counters);
}

TEST(AttentionPlanTest, TilesOfHeadsAreBoxesOfRows) {
  const TiledTensor map =
      tiled_heads({.address = 4096, .batch = 3, .tokens = 500, .heads = 4, .dim = 128, .tile = 192});
  EXPECT_EQ(map.shape, (std::vector<uint64_t>{64, 4, 500, 2, 3}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{256, 1024, 128, 512000}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 1, 192, 2, 1}));
}

// What one block of threads may have on Hopper.
TEST(AttentionPlanTest, TilesFitSharedMemory) {
  constexpr int kMostShared = 232448;
  EXPECT_LE(ForwardTile<64>::kSharedBytes, kMostShared);
  EXPECT_LE(ForwardTile<128>::kSharedBytes, kMostShared);
  EXPECT_LE(GradTile<64>::kSharedBytes, kMostShared);
  EXPECT_LE(GradTile<128>::kSharedBytes, kMostShared);
}

// All tiles of a part of the rows come before those of the next, the first tiles first; the last part may be smaller.
TEST(AttentionPlanTest, TasksGoThroughSomeRowsAtATime) {
  const RowTiles tasks{.rows = 7, .tiles = 3, .together = 4};
  ASSERT_EQ(tasks.count(), 21);
  std::vector<std::vector<int>> seen(7, std::vector<int>(3, 0));
  for (int32_t task = 0; task < tasks.count(); ++task) {
    const RowTile at = tasks.at(task);
    ASSERT_EQ(at.row < 4, task < 12);
    ASSERT_EQ(at.tile, task < 12 ? task / 4 : (task - 12) / 3);
    ++seen[static_cast<size_t>(at.row)][static_cast<size_t>(at.tile)];
  }
  EXPECT_EQ(seen, std::vector<std::vector<int>>(7, std::vector<int>(3, 1)));
}

TEST(AttentionPlanTest, RowsTogetherFitTheDevice) {
  const auto shape = [](const Node& node) { return AttentionPlan(node.view(), ops::kAttentionOperands).shape(); };
  EXPECT_EQ(grad_rows_together(shape(Node(8, 4096, 64)), 90), 12);
  EXPECT_EQ(grad_rows_together(shape(Node(8, 4096, 64)), 132), 16);
  EXPECT_EQ(grad_rows_together(shape(Node(8, 4096, 64)), 1), 1);
}

TEST(AttentionPlanTest, RefusesWhatPassesThirtyTwoBits) {
  EXPECT_TRUE(supports_attention(Node(1, 4096, 64).view()));
  EXPECT_FALSE(supports_attention(Node(1, (int64_t{1} << 30) + 1, 64).view()));
  EXPECT_FALSE(supports_attention(Node(int64_t{1} << 20, 4096, 64).view()));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
