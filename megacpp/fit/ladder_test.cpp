// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/ladder.h"

#include <gtest/gtest.h>

#include "megacpp/recipe/chip_settings.h"
#include "megacpp/recipe/parse.h"

namespace megacpp::fit {
namespace {

// A small model on virtual chips. Every op has a kernel without scratch memory.
OnPaper on_paper(const recipe::Recipe& recipe) {
  const int64_t chips = recipe::chips_of(recipe.layout);
  const hw::HostRates rates{.matrix_flops = 1e11, .bytes_per_second = 1e10, .cores = 2, .memory = int64_t{1} << 34};
  return plan_on_paper(
      recipe, {.slice = hw::parse_target("host:" + std::to_string(chips), {.host_rates = [&] { return rates; }}),
               .kernels = {.name = "any",
                           .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                           .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }},
               .limits = recipe::chip_limits(recipe.hardware, chips)});
}

recipe::Recipe recipe_with(const std::vector<std::string>& settings, const char* name = "nam52-tiny") {
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/" + name + ".yaml", settings);
}

Climb climb_with(const std::vector<std::string>& settings, const Ceiling& ceiling = {}) {
  return climb(on_paper(recipe_with(settings)), on_paper, ceiling);
}

const Attempt* attempt_of(const Climb& climb, const std::string& rung) {
  for (const Attempt& attempt : climb.attempts)
    if (attempt.name == rung) return &attempt;
  return nullptr;
}

TEST(LadderTest, TheTableHasTheRungsThatRecipesMayName) {
  ASSERT_EQ(all_rungs().size(), recipe::Ladder::kRungs.size());
  for (size_t i = 0; i < all_rungs().size(); ++i) EXPECT_EQ(all_rungs()[i].name, recipe::Ladder::kRungs[i]);
}

TEST(LadderTest, ActivationsThatOverflowHalveTheBatchAndKeepTheGlobalOne) {
  const Climb climb = climb_with({"hardware.limit=100MiB"});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(climb.rung, 1u);
  EXPECT_EQ(to_text(climb.changes), "train.batch=4 train.micro_steps=2");
  EXPECT_FALSE(climb.changes_experiment);
  EXPECT_TRUE(climb.found->fit.fits());
}

TEST(LadderTest, TheBatchIsHalvedAsOftenAsNeeded) {
  const Climb climb = climb_with({"hardware.limit=40MiB"});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(to_text(climb.changes), "train.batch=1 train.micro_steps=8");
}

TEST(LadderTest, WeightsThatOverflowSkipTheBatchAndSayWhy) {
  const Climb climb = climb_with({"hardware.limit=16MiB"});
  EXPECT_FALSE(climb.found);
  for (const char* rung : {"batch", "sequence", "features"}) {
    ASSERT_NE(attempt_of(climb, rung), nullptr);
    EXPECT_EQ(attempt_of(climb, rung)->verdict, Verdict::skipped);
    EXPECT_NE(attempt_of(climb, rung)->reason.find("optimizer 8.95 MiB"), std::string::npos) << to_text(climb);
  }
  EXPECT_EQ(climb.rung, 5u) << "stop";
  EXPECT_NE(to_text(climb).find("rung 5 stop"), std::string::npos);
}

// Far below what stays on the chip every rung is skipped; the frontier is still where the batch and the sequence end.
TEST(LadderTest, TheFrontierIsTheLeastThatAllRungsLeadTo) {
  int plans = 0;
  const auto counted = [&](const recipe::Recipe& recipe) {
    ++plans;
    return on_paper(recipe);
  };
  const recipe::Recipe recipe = recipe_with({"hardware.limit=10MiB"});
  const OnPaper asked = on_paper(recipe);
  const Climb climb = fit::climb(asked, counted);
  EXPECT_FALSE(climb.found);
  EXPECT_TRUE(climb.changes.empty()) << "nothing was taken";
  for (const Attempt& attempt : climb.attempts) EXPECT_NE(attempt.verdict, Verdict::fits) << attempt.name;
  EXPECT_LT(climb.least_needed, asked.fit.worst().needed() / 4);
  const recipe::Recipe least = with_changes(recipe, climb.least_changes);
  EXPECT_EQ(least.train.batch, 1);
  EXPECT_EQ(least.train.micro_steps, recipe.train.micro_steps * recipe.train.batch) << "the global batch stays";
  EXPECT_LT(least.train.sequence, recipe.train.sequence);
  EXPECT_EQ(on_paper(least).fit.worst().needed(), climb.least_needed);
  EXPECT_LE(plans, 12) << to_text(climb);
}

TEST(LadderTest, TheFrontierKeepsToWhatTheGatesAllow) {
  const Climb climb = climb_with({"layout.data_parallel=4", "hardware.limit=1MiB", "ladder.rungs=[batch]"});
  EXPECT_FALSE(climb.found);
  EXPECT_EQ(to_text(climb.least_changes), "train.batch=4 train.micro_steps=2") << "a sequence for each chip";
}

// The code of a TPU alone exceeds the limit, so that not even another layout could help.
TEST(LadderTest, TheFrontierHasLayoutsThatWereSkipped) {
  const auto on_tpu = [](const recipe::Recipe& recipe) {
    return plan_on_paper(
        recipe, {.slice = hw::parse_target("v6e:2x2"),
                 .kernels = {.name = "any",
                             .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                             .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }},
                 .limits = recipe::chip_limits(recipe.hardware, 4)});
  };
  const Climb climb = fit::climb(on_tpu(recipe_with({"layout.data_parallel=4", "hardware.limit=10MiB"})), on_tpu);
  EXPECT_FALSE(climb.found);
  ASSERT_NE(attempt_of(climb, "topology"), nullptr);
  EXPECT_EQ(attempt_of(climb, "topology")->verdict, Verdict::skipped) << to_text(climb);
  const std::string least = to_text(climb.least_changes);
  EXPECT_NE(least.find("layout.data_parallel=1"), std::string::npos) << least;
  EXPECT_NE(least.find("train.batch=1"), std::string::npos) << "one copy needs one sequence: " << least;
}

TEST(LadderTest, WithoutMoreBatchTheSequenceIsShorterAndThatIsSaid) {
  const Climb climb = climb_with({"train.batch=1", "hardware.limit=30MiB"});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(climb.rung, 2u);
  EXPECT_TRUE(climb.changes_experiment);
  EXPECT_NE(to_text(climb).find("another experiment"), std::string::npos);
}

TEST(LadderTest, OneSmallChipTakesTheWholeMeshDown) {
  const Climb climb = climb_with({"layout.data_parallel=4", "hardware.limits=[2=30MiB]"});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(to_text(climb.changes), "train.batch=4 train.micro_steps=2") << "one recipe for all chips";
  EXPECT_EQ(climb.found->fit.worst().chip, 2);
}

TEST(LadderTest, WeightsGoOverMoreChipsByTopology) {
  const Climb climb =
      climb_with({"layout.data_parallel=4", "layout.zero=0", "train.sequence=64", "hardware.limit=17MiB"});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(climb.rung, 4u);
  EXPECT_EQ(recipe::chips_of(climb.found->recipe.layout), 4);
}

TEST(LadderTest, WhatOverflowsTogetherIsRelievedTogether) {
  const Climb climb = climb_with({"layout.data_parallel=4", "layout.zero=0", "train.batch=16", "train.sequence=64",
                                  "hardware.limit=12MiB", "ladder.rungs=[batch,zero]"});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(climb.attempts[0].verdict, Verdict::skipped) << "alone the batch cannot help";
  const std::string taken = to_text(climb.changes);
  EXPECT_NE(taken.find("layout.zero="), std::string::npos) << taken;
  EXPECT_NE(taken.find("train.batch="), std::string::npos) << taken;
}

TEST(LadderTest, ThePolicyOrdersTheRungs) {
  const Climb climb = climb_with({"hardware.limit=100MiB", "ladder.rungs=[recompute,batch]"});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(climb.rung, 1u);
  EXPECT_TRUE(to_text(climb.changes).starts_with("train.recompute.E=selective")) << to_text(climb);
  EXPECT_TRUE(climb_with({"hardware.limit=100MiB", "ladder.rungs=[]"}).attempts.empty());
}

TEST(LadderTest, AfterAFailureLessIsAskedForThanFailed) {
  const OnPaper asked = on_paper(recipe_with({}));
  const int64_t needed = asked.fit.worst().needed();
  const Climb climb = fit::climb(asked, on_paper, {needed});
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_LT(climb.found->fit.worst().needed(), needed);
}

// The expert that most tokens choose makes the chips that hold it the tight ones. They alone do not fit, and the step
// that relieves them is the whole mesh's.
TEST(LadderTest, AnExpertHotSpotIsRelievedByTheBatch) {
  const std::vector<std::string> settings = {"layout.expert_parallel=2", "layout.data_parallel=2", "train.batch=8",
                                             "model.feed_forward.capacity_factor=4"};
  const recipe::Recipe even = recipe_with(settings, "nam56r-tiny");
  const int64_t needed = on_paper(even).fit.worst().needed();
  std::vector<std::string> hot = settings;
  hot.push_back("hardware.limits=[1=" + std::to_string(needed - 1) + ", 3=" + std::to_string(needed - 1) + "]");
  const OnPaper asked = on_paper(recipe_with(hot, "nam56r-tiny"));
  ASSERT_FALSE(asked.fit.fits());
  EXPECT_EQ(asked.fit.worst().place, "chip 1: data 0, expert 1");
  EXPECT_EQ(asked.fit.worst().chips, 2) << "chips 1 and 3 hold the expert";
  ASSERT_EQ(asked.fit.groups.size(), 2u);
  EXPECT_GE(asked.fit.groups[1].room(), 0) << "the others have room";
  EXPECT_EQ(asked.fit.groups[1].chip, 0);

  const Climb climb = fit::climb(asked, on_paper);
  ASSERT_TRUE(climb.found) << to_text(climb);
  EXPECT_EQ(climb.rung, 1u);
  EXPECT_EQ(to_text(climb.changes), "train.batch=4 train.micro_steps=2");
  EXPECT_EQ(climb.found->fit.worst().chip, 1) << "still the tightest";
  for (const ChipGroup& group : climb.found->fit.groups) EXPECT_LT(group.needed(), needed) << group.place;
}

}  // namespace
}  // namespace megacpp::fit
