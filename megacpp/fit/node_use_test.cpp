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
hw::Chip near_and_far() {
  hw::Chip chip;
  chip.memory_bytes_per_second = 1.0 / 8;
  chip.moves = {{.distance = 4, .bytes_per_second = 1}, {.distance = 16, .bytes_per_second = 1.0 / 3}};
  return chip;
}

TEST(NodeUseTest, MovingTakesLongerTheLongerAgoAPlaceWasTouched) {
  const hw::Chip chip = near_and_far();
  EXPECT_DOUBLE_EQ(hw::move_seconds(chip, 0), 1);
  EXPECT_DOUBLE_EQ(hw::move_seconds(chip, 4), 1);
  EXPECT_DOUBLE_EQ(hw::move_seconds(chip, 8), 2) << "half of the way by its logarithm";
  EXPECT_DOUBLE_EQ(hw::move_seconds(chip, 16), 3);
  EXPECT_DOUBLE_EQ(hw::move_seconds(chip, 17), 8) << "beyond the last, from memory";
}

TEST(NodeUseTest, WhatWasJustTouchedIsNear) {
  const hw::Chip chip = near_and_far();
  TouchedBytes arena(100);
  EXPECT_DOUBLE_EQ(arena.touch(chip, 0, 10), 80) << "never touched before";
  EXPECT_DOUBLE_EQ(arena.touch(chip, 0, 10), 10);
  EXPECT_DOUBLE_EQ(arena.touch(chip, 5, 10), 5 + 5 * 8) << "half of it is new";
  EXPECT_DOUBLE_EQ(arena.touch(chip, 2, 2), 2 * (1 + std::log2(10.0 / 4))) << "10 bytes ago, and left where it was";
}

// Against a list with the moment of every byte.
TEST(NodeUseTest, PiecesAreWhatEveryByteByItselfIs) {
  constexpr int64_t kArena = 64;
  const hw::Chip chip = near_and_far();
  TouchedBytes arena(kArena);
  std::vector<int64_t> last(kArena, -kArena);
  int64_t touched = 0;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const auto begin = static_cast<int64_t>(random() % kArena);
    const auto bytes = static_cast<int64_t>(random() % static_cast<uint32_t>(kArena - begin + 1));
    double seconds = 0;
    for (int64_t at = begin; at < begin + bytes; ++at)
      seconds += hw::move_seconds(chip, static_cast<double>(std::min(touched - last[static_cast<size_t>(at)], kArena)));
    touched += bytes;
    std::fill_n(last.begin() + begin, bytes, touched);
    EXPECT_NEAR(arena.touch(chip, begin, bytes), seconds, 1e-9) << i;
  }
}

struct Step {
  explicit Step(const std::vector<std::string>& settings)
      : compiled(make_estimate(recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings),
                               testing_support::test_assumptions("host:1"))
                     .compiled) {}
  const compile::StagePrograms& chip() const { return compiled.stages[0]; }
  /// Of nodes of the op in the micro-step.
  std::vector<NodeUse> of(const std::string& op, const hw::Chip& device) const {
    const auto uses = uses_in_step(chip(), device);
    const size_t program = chip().index_of(compile::ProgramKind::micro_step);
    const std::vector<ir::Node>& nodes = chip().programs[program].graph.nodes();
    std::vector<NodeUse> found;
    for (size_t n = 0; n < nodes.size(); ++n)
      if (nodes[n].op == op) found.push_back(uses.at(program).at(n));
    return found;
  }
  compile::Compiled compiled;
};

/// Caches hold a megabyte; bytes from memory take eight times as long.
hw::Chip with_cache() {
  hw::Chip chip;
  chip.memory_bytes_per_second = 1e9;
  chip.moves = {{.distance = 1 << 20, .bytes_per_second = 8e9}, {.distance = 1 << 21, .bytes_per_second = 1e9}};
  return chip;
}

TEST(NodeUseTest, NothingIsNearerThanNearOrFurtherThanMemory) {
  const Step step({"model.depth=4", "train.sequence=64"});
  const std::vector<NodeUse> products = step.of("dot", with_cache());
  ASSERT_FALSE(products.empty());
  for (const NodeUse& use : products) {
    EXPECT_GE(use.seconds, use.near * (1 - 1e-12));
    EXPECT_LE(use.seconds, 8 * use.near * (1 + 1e-12));
  }
  const auto is_far = [](const NodeUse& use) { return use.seconds > 1.01 * use.near; };
  EXPECT_TRUE(std::ranges::any_of(products, is_far)) << "weights were touched a step ago";
}

TEST(NodeUseTest, SmallStepsStayInTheCaches) {
  hw::Chip chip = with_cache();
  chip.moves[0].distance = int64_t{1} << 40;
  for (const NodeUse& use : Step({"model.depth=4", "train.sequence=64"}).of("dot", chip))
    EXPECT_NEAR(use.seconds, use.near, 1e-12);
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

TEST(NodeUseTest, OfChipsWithoutMeasuredCachesNothingIsKnown) {
  hw::Chip chip = with_cache();
  chip.moves.clear();
  EXPECT_TRUE(uses_in_step(Step({"model.depth=4"}).chip(), chip).empty());
}

}  // namespace
}  // namespace megacpp::fit
