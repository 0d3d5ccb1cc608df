// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/shallow_plans.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

constexpr int64_t kMostWholeInTest = 64;

std::optional<ShallowDepths> depths_with(const std::vector<std::string>& settings) {
  const recipe::Recipe recipe = testing_support::test_recipe(settings);
  return shallow_depths(plan::make_plan(recipe), kMostWholeInTest);
}

TEST(ShallowDepthsTest, DifferFromTheModelByWholePeriods) {
  struct Case {
    const char *pattern, *depth;
    int64_t period;
    std::array<int64_t, 3> depths;
  };
  for (const Case& each :
       {Case{"AE", "1000", 2, {24, 36, 48}}, Case{"AE", "1001", 2, {25, 37, 49}}, Case{"A", "200", 1, {24, 36, 48}},
        Case{"AEAE", "1000", 2, {24, 36, 48}}, Case{"AEEEEAA", "703", 7, {24, 38, 52}},
        Case{"AEEEEAAAAAAAAAAAE", "1000", 17, {48, 65, 82}}}) {
    const auto found =
        depths_with({std::string("model.pattern=") + each.pattern, std::string("model.depth=") + each.depth});
    ASSERT_TRUE(found) << each.pattern;
    EXPECT_EQ(found->period, each.period) << each.pattern;
    EXPECT_EQ(found->depths, each.depths) << each.pattern;
    for (const int64_t depth : found->depths) EXPECT_EQ((found->depth - depth) % each.period, 0) << each.pattern;
  }
}

TEST(ShallowDepthsTest, EveryPartOfAPipelineHasAsManyBlocksLess) {
  const auto found = depths_with({"model.depth=1000", "layout.pipeline_parallel=4", "train.micro_steps=4"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->parts, 4);
  EXPECT_EQ(found->depths, (std::array<int64_t, 3>{96, 144, 192}));
  EXPECT_EQ(found->left_out(), (1000 - 192) / 4);
}

TEST(ShallowDepthsTest, AModelWhoseBlocksAreToldApartIsPlannedWhole) {
  EXPECT_TRUE(depths_with({"model.depth=1000"}));
  EXPECT_TRUE(depths_with({"model.depth=1000", "optimizer.no_decay=[\"block*.A.wq\"]"}));
  EXPECT_FALSE(depths_with({"model.depth=1000", "optimizer.no_decay=[\"block07.A.wq\"]"}));
  EXPECT_FALSE(depths_with({"model.depth=1000", "lora.rank=4", "lora.targets=[\"*7.A.wq\"]"}));
  EXPECT_FALSE(depths_with({"model.depth=64"})) << "no deeper than what is planned whole";
  EXPECT_FALSE(depths_with({"model.depth=100"})) << "the shallow ones have more blocks";
  const std::string cut = std::string(500, 'A') + "|" + std::string(500, 'A');
  EXPECT_FALSE(depths_with({"model.depth=1000", "model.pattern=" + cut, "layout.pipeline_parallel=2"}));
}

TEST(ShallowDepthsTest, DeeperOnesAreTwiceAsDeepUntilTheyAreNoFewerBlocks) {
  const auto first = depths_with({"model.depth=401"});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->depths, (std::array<int64_t, 3>{25, 37, 49}));
  const auto second = deeper(*first);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->depths, (std::array<int64_t, 3>{51, 75, 99}));
  EXPECT_FALSE(deeper(*second));
}

TEST(ShallowDepthsTest, NumbersAreExtendedAlongTheirLine) {
  const ShallowDepths depths{.depths = {24, 36, 48}, .depth = 100'000, .period = 2, .parts = 1};
  const auto bytes_at = [](int64_t depth) { return 1000 + depth / 2 * 12'345'678'901; };
  EXPECT_EQ(depths.extended(bytes_at(36), bytes_at(48)), bytes_at(100'000));
  EXPECT_DOUBLE_EQ(depths.extended(36.5, 48.5), 100'000.5);
  EXPECT_EQ(to_text(depths), "99,976 of 100,000 blocks repeat: planned from depths 24, 36 and 48");
}

}  // namespace
}  // namespace megacpp::fit
