// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/comparison.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/compare/repeats.h"
#include "tests/support/seeded_receipts.h"

namespace megacpp::compare {
namespace {

using receipt::Receipt;
using stats::Finding;
using testing_support::seeded_receipt;

Comparison compare_two(const Receipt& baseline, const Receipt& other) {
  return compare(std::vector{baseline}, std::vector{other});
}

base::Code code_of(const Comparison& comparison) {
  try {
    require_result(comparison);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.exit_status(), 4);
    return error.code();
  }
  ADD_FAILURE() << "there is a result";
  return base::Code::E9001;
}

TEST(ComparisonTest, TheSameRunTwiceHasNoDifference) {
  const Receipt run = seeded_receipt({.name = "a"});
  const Comparison comparison = compare_two(run, run);
  require_result(comparison);
  EXPECT_TRUE(comparison.differences.fields.empty());
  EXPECT_EQ(comparison.effect->finding, Finding::no_difference);
  EXPECT_NE(verdict_text(comparison).find("no difference found"), std::string::npos) << verdict_text(comparison);
}

TEST(ComparisonTest, OneAxisGivesAResultAndFieldsThatFollowFromItAreNoAxes) {
  Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b", .overrides = {"layout.tensor_parallel=2"}, .arithmetic = 0.05});
  before.header.hardware.chips = 1;
  after.header.hardware.chips = 2;
  const Comparison comparison = compare_two(before, after);
  require_result(comparison);
  ASSERT_EQ(comparison.differences.axes.size(), 1U);
  EXPECT_EQ(to_text(comparison.differences.axes[0]), "layout.tensor_parallel: 1 -> 2");
  ASSERT_FALSE(comparison.differences.fields.empty());
  for (const FieldChange& field : comparison.differences.fields)
    EXPECT_EQ(field.follows_from, "layout.tensor_parallel") << field.name;
  EXPECT_EQ(comparison.effect->finding, Finding::lower);
  EXPECT_NE(verdict_text(comparison).find(" % less time a token than a ("), std::string::npos)
      << verdict_text(comparison);
  EXPECT_EQ(aspect_of("layout.tensor_parallel"), "topology");
}

TEST(ComparisonTest, ASlowdownOfATenthIsFoundWithItsCause) {
  const Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b", .overrides = {"layout.prefetch=2"}, .links = 0.02});
  after.collectives->front().bytes = 80'000'000;
  after.header.program.overlap = "prefetch 2";
  const Comparison comparison = compare_two(before, after);
  require_result(comparison);
  EXPECT_EQ(comparison.effect->finding, Finding::higher);
  EXPECT_NEAR(comparison.effect->ratio, 1.1, 0.02);
  ASSERT_TRUE(comparison.time->cause.has_value());
  EXPECT_EQ(*comparison.time->cause, "links");
  ASSERT_EQ(comparison.time->parts.front().part, "links");
  EXPECT_EQ(comparison.time->parts.front().notes,
            std::vector<std::string>{"all_gather over data: 9.54 MiB -> 76.29 MiB a step"});
  EXPECT_LT(std::abs(comparison.time->unexplained), 0.3 * std::abs(comparison.time->change()));
}

TEST(ComparisonTest, ACauseThatNoPartHasIsNotFound) {
  const Receipt before = seeded_receipt({.name = "a"});
  const Receipt after = seeded_receipt({.name = "b", .overrides = {"layout.tensor_parallel=2"}, .other = 0.03});
  const Comparison comparison = compare_two(before, after);
  EXPECT_EQ(comparison.effect->finding, Finding::higher);
  EXPECT_FALSE(comparison.time->cause.has_value());
  EXPECT_GT(comparison.time->unexplained, 0.9 * comparison.time->change());
}

// The typical step is slower, and a stall of the other run turns the means round.
TEST(ComparisonTest, AChangeOfTheMeanInTheOtherDirectionHasNoCause) {
  Receipt before = seeded_receipt({.name = "a"});
  before.times.steady->seconds += 100;
  before.times.parts->links = 0.5;
  const Receipt after = seeded_receipt({.name = "b", .overrides = {"layout.tensor_parallel=2"}, .arithmetic = 0.1});
  const Comparison comparison = compare_two(before, after);
  EXPECT_EQ(comparison.effect->finding, Finding::higher);
  EXPECT_LT(comparison.time->change(), 0);
  EXPECT_FALSE(comparison.time->cause.has_value());
}

TEST(ComparisonTest, TwoAxesAreConfounded) {
  const Receipt before = seeded_receipt({.name = "a"});
  const Receipt after =
      seeded_receipt({.name = "b", .overrides = {"layout.tensor_parallel=2", "train.batch=4"}, .arithmetic = 0.02});
  const Comparison comparison = compare_two(before, after);
  EXPECT_FALSE(comparison.effect.has_value());
  EXPECT_EQ(comparison.differences.axes.size(), 2U);
  EXPECT_EQ(code_of(comparison), base::Code::E4001);
}

TEST(ComparisonTest, AnotherMachineOrBuildIsAnAxisOfItsOwn) {
  const Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b"});
  after.header.hardware.processor = "another";
  EXPECT_EQ(compare_two(before, after).differences.axes.size(), 1U);
  after.header.versions.code = "0.2.0";
  EXPECT_EQ(code_of(compare_two(before, after)), base::Code::E4001);
}

TEST(ComparisonTest, FamiliesAreNeverRankedTogether) {
  const Receipt hybrid = seeded_receipt({.name = "a"});
  const Receipt other = seeded_receipt({.name = "b", .overrides = {"model.pattern=AE"}, .arithmetic = 0.02});
  const Comparison comparison = compare_two(hybrid, other);
  EXPECT_TRUE(comparison.differences.has_other_family);
  EXPECT_FALSE(comparison.effect.has_value());
  EXPECT_EQ(code_of(comparison), base::Code::E4001);
}

TEST(ComparisonTest, AKeyCountsWhetherAHeaderFieldShowsItOrNot) {
  const Receipt before = seeded_receipt({.name = "a"});
  for (const char* key :
       {"optimizer.clip=0", "optimizer.weight_decay=0.2", "train.log_every=7", "checkpoint.every=3"}) {
    const Comparison alone = compare_two(before, seeded_receipt({.name = "b", .overrides = {key}}));
    EXPECT_EQ(alone.differences.axes.size(), 1U) << key;
    const std::vector<std::string> both = {key, "layout.tensor_parallel=2"};
    EXPECT_EQ(code_of(compare_two(before, seeded_receipt({.name = "c", .overrides = both}))), base::Code::E4001) << key;
  }
}

TEST(ComparisonTest, KeysWithoutEffectAreNoAxes) {
  const Receipt before = seeded_receipt({.name = "a"});
  for (const char* key : {"xla.flags=[xla_dump_to=x]", "optimizer.lr=0.1", "xla.cache=off", "layout.chips=1"}) {
    const Comparison comparison = compare_two(before, seeded_receipt({.name = "b", .overrides = {key}}));
    EXPECT_TRUE(comparison.differences.axes.empty()) << key;
    EXPECT_EQ(comparison.differences.unmeasured.size(), 1U) << key;
  }
}

TEST(ComparisonTest, FactsOfTheEnvironmentAreAxes) {
  Receipt before = seeded_receipt({.name = "a"}), after = seeded_receipt({.name = "b"});
  before.lineage.items = {{.name = "megacpp", .live = "0.1.0"},
                          {.name = "openblas", .live = "0.3.21"},
                          {.name = "cores", .live = "4"},
                          {.name = "of an older version", .live = "1"}};
  after.lineage.items = {
      {.name = "megacpp", .live = "0.2.0"}, {.name = "openblas", .live = "0.3.26"}, {.name = "cores", .live = "4"}};
  const Comparison comparison = compare_two(before, after);
  ASSERT_EQ(comparison.differences.axes.size(), 1U) << "the code's version is a field of the header";
  EXPECT_EQ(to_text(comparison.differences.axes[0]), "lineage.openblas: 0.3.21 -> 0.3.26");
  EXPECT_EQ(comparison.differences.fields.size(), 1U);
  after.lineage.items[1].live = "0.3.21";
  after.lineage.items[2].live = "8";
  after.header.hardware.threads = 8;
  EXPECT_EQ(compare_two(before, after).differences.axes.size(), 1U) << "threads follow from cores";
}

TEST(ComparisonTest, OtherHardwareDoesNotHideBehindALayout) {
  Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b", .overrides = {"layout.tensor_parallel=2"}});
  before.header.hardware.name = "h100:1";
  after.header.hardware.name = "h100:2";
  before.header.hardware.chip = after.header.hardware.chip = "h100";
  EXPECT_EQ(compare_two(before, after).differences.axes.size(), 1U);
  after.header.hardware.name = "h200:2";
  after.header.hardware.chip = "h200";
  EXPECT_EQ(code_of(compare_two(before, after)), base::Code::E4001);
}

TEST(ComparisonTest, ABackendOnADeviceHasNoProcessorAndThatIsNoAxis) {
  const Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b", .overrides = {"backend=xla"}});
  after.header.hardware.processor.clear();
  after.header.hardware.chip = "h200";
  const Comparison comparison = compare_two(before, after);
  ASSERT_EQ(comparison.differences.axes.size(), 1U);
  EXPECT_EQ(comparison.differences.axes[0].name, "backend");
}

TEST(ComparisonTest, WhatPlanningChoseFollowsFromWhatItWasToldToPlan) {
  const Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b", .overrides = {"train.batch=32"}});
  after.header.program.recompute = "A=full";
  const Comparison comparison = compare_two(before, after);
  ASSERT_EQ(comparison.differences.axes.size(), 1U);
  EXPECT_EQ(comparison.differences.axes[0].name, "train.batch");
}

TEST(ComparisonTest, OnlyKeysAreSuggestedForASweep) {
  const Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b"});
  after.header.hardware.processor = "another";
  after.header.versions.code = "0.2.0";
  try {
    require_result(compare_two(before, after));
    FAIL() << "two axes";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.problem().next.find("sweep"), std::string::npos) << error.problem().next;
  }
}

TEST(ComparisonTest, SeedsAndStepsAreNoAxes) {
  const Comparison comparison = compare_two(
      seeded_receipt({.name = "a"}), seeded_receipt({.name = "b", .overrides = {"train.seed=7", "train.steps=400"}}));
  require_result(comparison);
  EXPECT_TRUE(comparison.differences.axes.empty());
  EXPECT_EQ(comparison.differences.unmeasured.size(), 2U);
}

TEST(ComparisonTest, ARunThatMayNotBeComparedIsNamedWithItsReason) {
  const Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b"});
  after.verdict.reasons = {{.name = "ended early", .sentence = "The run was interrupted after 14 of 150 steps."}};
  const Comparison comparison = compare_two(before, after);
  EXPECT_EQ(code_of(comparison), base::Code::E4002);
  ASSERT_EQ(comparison.objections.size(), 1U);
  EXPECT_EQ(comparison.objections[0].run, "b");
  EXPECT_NE(comparison.objections[0].next.find("let it make all its steps"), std::string::npos);
  Receipt untimed = seeded_receipt({.name = "c"});
  untimed.times = {};
  EXPECT_EQ(code_of(compare_two(before, untimed)), base::Code::E4002);
}

TEST(ComparisonTest, ARunThatStandsTwiceOnItsSideIsNoRepeat) {
  const Receipt a = seeded_receipt({.name = "a"});
  const Receipt b = seeded_receipt({.name = "b", .overrides = {"train.batch=4"}});
  EXPECT_EQ(code_of(compare(std::vector{a, a}, std::vector{b, b})), base::Code::E4002);
  EXPECT_EQ(each_once({a, a, b, a}).size(), 2U);
}

TEST(ComparisonTest, ShortRunsAreToldHowLongTheyShouldBe) {
  const Comparison comparison = compare_two(seeded_receipt({.name = "a", .steps = 20}),
                                            seeded_receipt({.name = "b", .arithmetic = 0.2, .steps = 20}));
  EXPECT_EQ(code_of(comparison), base::Code::E4002) << "too short is no result";
  EXPECT_EQ(comparison.effect->finding, Finding::too_short);
  EXPECT_GT(comparison.recommended_steps, 40);
  EXPECT_NE(verdict_text(comparison).find("too short to say"), std::string::npos) << verdict_text(comparison);
}

TEST(ComparisonTest, ChipsKeepTheirNumbersInAnotherMesh) {
  receipt::Memory whole, stages;
  whole.planned = {{.chip = 0, .chips = 4, .place = "chip 0: data 0", .planned_bytes = 100}};
  stages.planned = {{.chip = 2, .chips = 2, .place = "chip 2: stage 1", .planned_bytes = 70},
                    {.chip = 0, .chips = 2, .place = "chip 0: stage 0", .planned_bytes = 60}};
  const std::optional<MemoryMoves> moves = memory_moves(whole, stages);
  ASSERT_TRUE(moves && moves->chips.size() == 2);
  EXPECT_EQ(moves->chips[0].place, "chip 0");
  EXPECT_EQ(moves->chips[0].baseline, 100);
  EXPECT_EQ(moves->chips[0].other, 60);
  EXPECT_EQ(moves->chips[1].place, "chip 2: stage 1");
  EXPECT_EQ(moves->chips[1].baseline, 100) << "all four are planned alike";
  EXPECT_EQ(moves->chips[1].other, 70);
  EXPECT_FALSE(memory_moves(stages, stages)->chips.size());
}

TEST(ComparisonTest, MemoryMovesAreThoseOfTheWorstChipByRoleAndFamily) {
  const Receipt before = seeded_receipt({.name = "a"});
  Receipt after = seeded_receipt({.name = "b", .overrides = {"layout.tensor_parallel=2"}});
  after.memory.planned.front().items[0].bytes = 60'000'000;
  after.memory.planned.front().planned_bytes = 100'500'000;
  const Comparison comparison = compare_two(before, after);
  ASSERT_TRUE(comparison.memory.has_value());
  EXPECT_EQ(comparison.memory->change(), -40'500'000);
  ASSERT_EQ(comparison.memory->roles.size(), 1U);
  EXPECT_EQ(comparison.memory->roles[0].role, "weight");
  EXPECT_EQ(comparison.memory->roles[0].family, "A");
  EXPECT_EQ(comparison.memory->unexplained, -500'000);
  ASSERT_EQ(comparison.memory->chips.size(), 1U);
  EXPECT_EQ(comparison.memory->chips[0].place, "chip 0");
}

}  // namespace
}  // namespace megacpp::compare
