// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/islands.h"

#include <gtest/gtest.h>

#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::fit {
namespace {

std::vector<AxisIsland> found(const char* target, const std::vector<ir::MeshAxis>& axes) {
  return islands_of(hw::parse_target(target), ir::Mesh(axes));
}

TEST(IslandsTest, AnAxisThatFitsANodeStaysInside) {
  const std::vector<AxisIsland> islands = found("h100:16", {{"data", 2}, {"model", 8}});
  ASSERT_EQ(islands.size(), 2u);
  EXPECT_EQ(islands[0].axis, "data");
  EXPECT_EQ(islands[0].link.name, "network");
  EXPECT_EQ(islands[0].where, "across 2 nodes");
  EXPECT_TRUE(islands[0].crosses());
  EXPECT_EQ(islands[1].link.name, "nvlink");
  EXPECT_EQ(islands[1].where, "inside a node of 8");
  EXPECT_FALSE(islands[1].crosses());
}

TEST(IslandsTest, AxesThatAreSplitInStepsAreOne) {
  const std::vector<AxisIsland> islands = found("h100:16", {{"model.0", 2}, {"model.1", 8}});
  ASSERT_EQ(islands.size(), 1u);
  EXPECT_EQ(islands[0].axis, "model");
  EXPECT_EQ(islands[0].size, 16);
  EXPECT_EQ(islands[0].domains, 2);
}

TEST(IslandsTest, OneGroupThatCrossesIsEnough) {
  const std::vector<AxisIsland> islands = found("h100:24", {{"data", 4}, {"model", 6}});
  EXPECT_EQ(islands[1].axis, "model");
  EXPECT_EQ(islands[1].domains, 2) << "chips 6 to 11 are on two nodes";
}

TEST(IslandsTest, ATorusIsOneDomain) {
  for (const AxisIsland& island : found("v6e:16x16", {{"data", 4}, {"model", 64}})) {
    EXPECT_FALSE(island.crosses()) << island.axis;
    EXPECT_EQ(island.where, "inside the slice");
    EXPECT_EQ(island.link.name, "ici");
  }
}

recipe::Recipe on_chips(const std::vector<std::string>& settings) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe::apply_overrides(recipe, settings);
  return recipe;
}

TEST(IslandsTest, WhatLeavesTheFastDomainIsPricedWithTheNearestLayoutInside) {
  const recipe::Recipe recipe = on_chips({"layout.expert_parallel=2", "layout.data_parallel=1", "train.batch=16"});
  hw::Slice slice = hw::parse_target("h100:16");
  slice.sizes = {1, 2};  // nodes of one chip
  const ir::Mesh mesh = plan::make_plan(recipe).parallel.mesh;
  StepTime time;
  time.links.push_back({.axes = "expert",
                        .link = "network",
                        .bytes = 450'000'000,
                        .calls = 100,
                        .seconds = 9e-3,
                        .exposed = 0,
                        .bytes_per_second = 50e9});
  time.links.push_back(
      {.axes = "data", .link = "network", .bytes = 1, .seconds = 1, .exposed = 0, .bytes_per_second = 50e9});
  const std::vector<Crossing> crossings = crossings_of(recipe, slice, mesh, time);
  ASSERT_EQ(crossings.size(), 1u);
  EXPECT_EQ(crossings[0].key, "layout.expert_parallel");
  EXPECT_DOUBLE_EQ(crossings[0].seconds, 9e-3);
  EXPECT_DOUBLE_EQ(crossings[0].inside_seconds, 1e-3 + 100 * 3.4e-6) << "450 MB at 450 GB/s, and every call waits";
  ASSERT_TRUE(crossings[0].nearest.has_value());
  EXPECT_EQ(plan::overrides_of(*crossings[0].nearest),
            (std::vector<std::string>{"layout.expert_parallel=1", "layout.data_parallel=2"}));
  const std::string text = to_text(crossings[0]);
  for (const char* part : {"expert is across 2 nodes over network", "9.00 ms", "over nvlink 1.34 ms",
                           "layout.expert_parallel=1 layout.data_parallel=2"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(IslandsTest, WithoutSequencesToShareNoLayoutIsNamed) {
  const recipe::Recipe recipe = on_chips({"layout.tensor_parallel=2", "layout.data_parallel=1", "train.batch=1"});
  hw::Slice slice = hw::parse_target("h100:16");
  slice.sizes = {1, 2};
  const std::vector<Crossing> crossings =
      crossings_of(recipe, slice, plan::make_plan(recipe).parallel.mesh, StepTime{});
  ASSERT_EQ(crossings.size(), 1u);
  EXPECT_FALSE(crossings[0].nearest.has_value());
  EXPECT_NE(to_text(crossings[0]).find("No smaller degree is legal"), std::string::npos);
}

}  // namespace
}  // namespace megacpp::fit
