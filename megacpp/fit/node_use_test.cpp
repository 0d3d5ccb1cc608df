// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/node_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "megacpp/fit/estimate.h"
#include "megacpp/recipe/parse.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

/// A byte takes a second where 4 bytes were touched since, 3 where 16 were, and 8 from memory.
const std::vector<hw::MoveRate> kNearAndFar = {{.distance = 4, .bytes_per_second = 1},
                                               {.distance = 16, .bytes_per_second = 1.0 / 3},
                                               {.distance = 17, .bytes_per_second = 1.0 / 8}};

TEST(NodeUseTest, MovingTakesLongerTheLongerAgoAPlaceWasTouched) {
  EXPECT_DOUBLE_EQ(hw::move_seconds(kNearAndFar, 0), 1);
  EXPECT_DOUBLE_EQ(hw::move_seconds(kNearAndFar, 4), 1);
  EXPECT_DOUBLE_EQ(hw::move_seconds(kNearAndFar, 8), 2) << "half of the way by its logarithm";
  EXPECT_DOUBLE_EQ(hw::move_seconds(kNearAndFar, 16), 3);
  EXPECT_DOUBLE_EQ(hw::move_seconds(kNearAndFar, 18), 8) << "beyond the last, from memory";
}

TEST(NodeUseTest, WhatWasJustTouchedIsNear) {
  TouchedBytes arena(100);
  EXPECT_DOUBLE_EQ(arena.touch(kNearAndFar, 0, 10), 80) << "never touched before";
  EXPECT_DOUBLE_EQ(arena.touch(kNearAndFar, 0, 10), 10);
  EXPECT_DOUBLE_EQ(arena.touch(kNearAndFar, 5, 10), 5 + 5 * 8) << "half of it is new";
  EXPECT_DOUBLE_EQ(arena.touch(kNearAndFar, 2, 2), 2 * (1 + std::log2(10.0 / 4)))
      << "10 bytes ago, and left where it was";
}

// Against a list with the moment of every byte.
TEST(NodeUseTest, PiecesAreWhatEveryByteByItselfIs) {
  constexpr int64_t kArena = 64;
  TouchedBytes arena(kArena);
  std::vector<int64_t> last(kArena, -kArena);
  int64_t touched = 0;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const auto begin = static_cast<int64_t>(random() % kArena);
    const auto bytes = static_cast<int64_t>(random() % static_cast<uint32_t>(kArena - begin + 1));
    double seconds = 0;
    for (int64_t at = begin; at < begin + bytes; ++at)
      seconds +=
          hw::move_seconds(kNearAndFar, static_cast<double>(std::min(touched - last[static_cast<size_t>(at)], kArena)));
    touched += bytes;
    std::fill_n(last.begin() + begin, bytes, touched);
    EXPECT_NEAR(arena.touch(kNearAndFar, begin, bytes), seconds, 1e-9) << i;
  }
}

struct Step {
  explicit Step(const std::vector<std::string>& settings, const char* target = "host:1")
      : compiled(make_estimate(recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings),
                               testing_support::test_assumptions(target))
                     .compiled) {}
  const compile::StagePrograms& chip() const { return compiled.stages[0]; }
  std::vector<std::vector<NodeUse>> uses(const hw::Chip& device) const {
    return uses_in_step(chip(), compiled.mesh, device);
  }
  /// Of nodes of the op in all programs.
  std::vector<NodeUse> of(const std::string& op, const hw::Chip& device) const {
    const auto found_uses = uses(device);
    std::vector<NodeUse> found;
    for (size_t p = 0; p < chip().programs.size(); ++p) {
      const std::vector<ir::Node>& nodes = chip().programs[p].graph.nodes();
      for (size_t n = 0; n < nodes.size(); ++n)
        if (nodes[n].op == op) found.push_back(found_uses.at(p).at(n));
    }
    return found;
  }
  compile::Compiled compiled;
};

/// Caches hold a megabyte; bytes from memory take eight times as long.
hw::Chip with_cache() {
  hw::Chip chip;
  chip.memory_bytes_per_second = 1e9;
  chip.moves = {{.distance = 1 << 20, .bytes_per_second = 8e9}, {.distance = 1 << 21, .bytes_per_second = 1e9}};
  chip.near = {.products = 1 << 20, .attention = 1 << 20, .attention_grad = 1 << 20, .ssd = 1 << 20};
  return chip;
}

TEST(NodeUseTest, NothingIsNearerThanNearOrFurtherThanMemory) {
  const Step step({"model.depth=4", "train.sequence=64"});
  const std::vector<NodeUse> products = step.of("dot", with_cache());
  ASSERT_FALSE(products.empty());
  for (const NodeUse& use : products) {
    EXPECT_GE(use.seconds, use.bytes / 8e9 * (1 - 1e-12));
    EXPECT_LE(use.seconds, use.bytes / 1e9 * (1 + 1e-12));
    EXPECT_NEAR(use.waiting, use.seconds - use.bytes / 8e9, 1e-12);
  }
  const auto waits = [](const NodeUse& use) { return use.waiting > 0.01 * use.seconds; };
  EXPECT_TRUE(std::ranges::any_of(products, waits)) << "weights were touched a step ago";
}

TEST(NodeUseTest, SmallStepsStayInTheCaches) {
  hw::Chip chip = with_cache();
  chip.moves = {{.distance = int64_t{1} << 40, .bytes_per_second = 8e9}};
  for (const NodeUse& use : Step({"model.depth=4", "train.sequence=64"}).of("dot", chip)) EXPECT_LT(use.waiting, 1e-12);
}

// Rates of arithmetic have waited for that themselves.
TEST(NodeUseTest, WhatIsNearerThanRatesWereMeasuredAtSavesNothing) {
  hw::Chip chip = with_cache();
  const Step step({"model.depth=4", "train.sequence=64"});
  const auto waits = [&](const char* op) {
    const std::vector<NodeUse> uses = step.of(op, chip);
    EXPECT_FALSE(uses.empty()) << op;
    return std::ranges::any_of(uses, [](const NodeUse& use) { return use.waiting > 0; });
  };
  const std::vector<std::pair<const char*, int64_t*>> kinds = {{"dot", &chip.near.products},
                                                               {"attention", &chip.near.attention},
                                                               {"attention_grad", &chip.near.attention_grad},
                                                               {"ssd", &chip.near.ssd}};
  for (const auto& [op, near] : kinds) {
    *near = 0;
    EXPECT_TRUE(waits(op)) << op;
    *near = int64_t{1} << 40;
    EXPECT_FALSE(waits(op)) << op;
  }
}

TEST(NodeUseTest, PlacesBeyondEvenlyLoadedExpertsHoldNoRows) {
  const Step step({"model.depth=4", "train.sequence=64", "model.feed_forward.capacity_factor=1.25"});
  for (const char* op : {"ragged_dot", "ragged_dot_weight"}) {
    const std::vector<NodeUse> products = step.of(op, with_cache());
    ASSERT_FALSE(products.empty());
    for (const NodeUse& use : products) EXPECT_DOUBLE_EQ(use.rows, 0.8) << op;
  }
  for (const NodeUse& use : step.of("dot", with_cache())) EXPECT_EQ(use.rows, 1);
}

// Rows that a forward pass leaves are read by a backward pass of its own, and by the part of it that makes gradients of
// weights.
TEST(NodeUseTest, RowsStayInUseInProgramsThatComeLater) {
  const Step step({"model.depth=4", "train.sequence=64", "train.batch=4", "train.micro_steps=4",
                   "model.feed_forward.capacity_factor=1.25", "layout.pipeline_parallel=2",
                   "layout.schedule=zero_bubble", "train.recompute=none"},
                  "host:2");
  for (const char* op : {"ragged_dot", "ragged_dot_weight"}) {
    const std::vector<NodeUse> products = step.of(op, with_cache());
    ASSERT_FALSE(products.empty());
    for (const NodeUse& use : products) EXPECT_DOUBLE_EQ(use.rows, 0.8) << op;
  }
}

// A chip with a part of the experts has the slots of all tokens, or all experts' rows of its own tokens.
TEST(NodeUseTest, PlacesOfSplitExpertsHoldRowsOfTheirOwn) {
  for (const char* dispatcher : {"allgather", "alltoall"}) {
    const Step step({"model.depth=4", "train.sequence=64", "train.batch=2", "layout.expert_parallel=2",
                     "model.feed_forward.capacity_factor=1.25", std::string("layout.dispatcher=") + dispatcher},
                    "host:2");
    const std::vector<NodeUse> products = step.of("ragged_dot", with_cache());
    ASSERT_FALSE(products.empty());
    for (const NodeUse& use : products) EXPECT_DOUBLE_EQ(use.rows, 0.8) << dispatcher;
  }
}

TEST(NodeUseTest, OfChipsWithoutMeasuredCachesNothingIsKnown) {
  hw::Chip chip = with_cache();
  chip.moves.clear();
  EXPECT_TRUE(Step({"model.depth=4"}).uses(chip).empty());
}

}  // namespace
}  // namespace megacpp::fit
