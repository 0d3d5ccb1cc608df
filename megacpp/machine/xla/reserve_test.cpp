// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/reserve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/assumptions.h"

namespace megacpp::runtime::xla {
namespace {

// A plan of a thousand bytes, of which a hundred stay.
fit::Reservation of_plan(const hw::Chip& chip, const std::vector<std::string>& settings = {}) {
  compile::Compiled compiled;
  compiled.stages.resize(1);
  compiled.stages[0].memory.total_bytes = 1000;
  compiled.stages[0].memory.state_bytes = 100;
  const schedule::Target target;
  const plan::PlannedRecipe planned(testing_support::test_recipe(settings));
  return reserve({planned, compiled, target}, chip).value();
}

hw::Chip gpu() {
  hw::Chip chip;
  chip.kind = hw::ChipKind::gpu;
  chip.xla = {.gaps_least = 0.5, .gaps_most = 1.25, .loops_gaps_most = 1.5};
  return chip;
}

TEST(XlaReserveTest, OnGpusThePlanIsExpectedAndGapsAreTheRange) {
  const fit::Reservation unrolled = of_plan(gpu());
  EXPECT_EQ(unrolled.least, 500);
  EXPECT_EQ(unrolled.expected, 1000);
  EXPECT_EQ(unrolled.most, 1250);
  EXPECT_EQ(unrolled.code, 0);
  EXPECT_TRUE(unrolled.why.empty());
  EXPECT_FALSE(unrolled.is_asked_first);
  EXPECT_EQ(of_plan(gpu(), {"xla.loops=on"}).most, 1500);
  EXPECT_EQ(of_plan(gpu(), {"model.feed_forward.capacity_factor=0"}).most, 1650) << "copies of rows for every expert";
}

TEST(XlaReserveTest, OnThisMachineThePlanIsNeeded) {
  hw::Chip host;
  host.kind = hw::ChipKind::host;
  EXPECT_FALSE(of_plan(host).is_range());
}

TEST(XlaReserveTest, OfAChipOfWhichNothingIsKnownThePlanIsLeft) {
  hw::Chip tpu;
  tpu.kind = hw::ChipKind::tpu;
  for (const char* loops : {"xla.loops=on", "xla.loops=off"}) EXPECT_FALSE(of_plan(tpu, {loops}).is_range()) << loops;
  tpu.xla = {.code_least = 10, .code_most = 20, .gaps_least = 0.05, .gaps_most = 1.5};
  const fit::Reservation known = of_plan(tpu);
  EXPECT_EQ(known.least, 100 + 10) << "state is exact";
  EXPECT_EQ(known.expected, 1020);
  EXPECT_EQ(known.most, 1520);
  EXPECT_TRUE(known.is_asked_first);
}

TEST(XlaReserveTest, OnGpusAClientHasAPoolThatItsSharersDivide) {
  EXPECT_EQ(pool_share(gpu(), 1), 0.9);
  EXPECT_EQ(pool_share(gpu(), 3), 0.3);
  EXPECT_EQ(pool_share(hw::find_chip("v6e"), 1), 1);
}

TEST(XlaReserveTest, WhatARecipeLeavesOpenGoesByTheChip) {
  EXPECT_EQ(settled_on(gpu(), {}).xla.plugin, "cuda");
  EXPECT_EQ(settled_on(hw::find_chip("v6e"), {}).xla.plugin, recipe::Xla{}.plugin);
  recipe::Recipe named;
  named.xla.plugin = "mine.so";
  EXPECT_EQ(settled_on(gpu(), named).xla.plugin, "mine.so");
}

}  // namespace
}  // namespace megacpp::runtime::xla
