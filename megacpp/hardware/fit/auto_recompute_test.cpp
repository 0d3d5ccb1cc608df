// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/auto_recompute.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/recompute.h"
#include "tests/support/reserving.h"

namespace megacpp::fit {
namespace {

// Every op has a kernel without scratch memory.
Assumptions on(const std::string& hardware, int64_t limit = 0) {
  const hw::HostRates rates{.matrix_flops = 1e11, .bytes_per_second = 1e10, .cores = 2, .memory = int64_t{1} << 36};
  return {.slice = hw::parse_target(hardware, {.host_rates = [&] { return rates; }}),
          .kernels = {.name = "any",
                      .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                      .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }},
          .xla_forms = XlaForms{},
          .limits = limit == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{limit}};
}

recipe::Recipe shipped(const char* name, const std::vector<std::string>& settings = {}) {
  return recipe::load(fmt::format("{}/recipes/{}.yaml", MEGACPP_SOURCE_DIR, name), settings);
}

int64_t needed(const Estimate& estimate) { return estimate.fit.worst().needed(); }

TEST(AutoRecomputeTest, DenseFeedForwardsRecomputeTheirElementwiseWorkOnlyWhereThatWasMeasuredToBeFree) {
  struct Row {
    std::string hardware;
    bool by_xla;
    std::string precision;
    recipe::RecomputeLevel level;
  };
  for (const Row& row : std::vector<Row>{{"h200:1", true, "bf16", recipe::RecomputeLevel::selective},
                                         {"h200:1", true, "f32", recipe::RecomputeLevel::none},
                                         {"h200:1", false, "bf16", recipe::RecomputeLevel::none},
                                         {"b200:1", true, "bf16", recipe::RecomputeLevel::none},
                                         {"v6e:1x1", true, "bf16", recipe::RecomputeLevel::none},
                                         {"a100:1", true, "bf16", recipe::RecomputeLevel::none},
                                         {"host:1", true, "bf16", recipe::RecomputeLevel::none}}) {
    SCOPED_TRACE(row.hardware + " " + row.precision + (row.by_xla ? " by XLA" : ""));
    Assumptions assumptions = on(row.hardware);
    if (!row.by_xla) assumptions.xla_forms.reset();
    const AutoRecompute recompute(shipped("nam52-1b", {"train.precision=" + row.precision}), assumptions);
    EXPECT_EQ(recipe::recompute_level(recompute.recipe(), 'E'), row.level);
    EXPECT_EQ(recipe::recompute_level(recompute.recipe(), 'A'), recipe::RecomputeLevel::none);
    EXPECT_EQ(recompute.choices().size(), 2u);
  }
  const Assumptions h200 = on("h200:1");
  EXPECT_EQ(to_text(AutoRecompute(shipped("nam52-1b"), h200).choices()),
            "A none (the plan needs no more; whether more would cost time was not measured here); "
            "E selective (measured: a step is as fast and keeps 20% less; dense 1.1B on one H200, blocks unrolled, "
            "2026-11-17)");
  for (const RecomputeChoice& choice : AutoRecompute(shipped("nam56r-1b"), h200).choices())
    EXPECT_EQ(choice.level, recipe::RecomputeLevel::none) << choice.letter << ": experts were not measured";
}

TEST(AutoRecomputeTest, AMeasurementThatItCostsTimeIsGivenAsTheReason) {
  Assumptions assumptions = on("h200:1");
  assumptions.slice.chip.selective_recompute["bf16"] = {.speed = 0.97, .memory = 0.65};
  EXPECT_EQ(
      to_text(AutoRecompute(shipped("nam52-1b", {"train.recompute.A=none"}), assumptions).choices()),
      "E none (the plan needs no more; selective was measured: a step is 3% slower and keeps 35% less; dense 1.1B "
      "on one H200, blocks unrolled, 2026-11-17)");
}

TEST(AutoRecomputeTest, AGainOfAPercentAndMoreIsNamed) {
  Assumptions assumptions = on("h200:1");
  assumptions.slice.chip.selective_recompute["bf16"] = {.speed = 1.08, .memory = 0.65};
  EXPECT_EQ(to_text(AutoRecompute(shipped("nam52-1b", {"train.recompute.A=none"}), assumptions).choices()),
            "E selective (measured: a step is 8% faster and keeps 35% less; dense 1.1B on one H200, blocks unrolled, "
            "2026-11-17)");
}

TEST(AutoRecomputeTest, OnAHostNothingIsFreeAndTheReasonIsSaid) {
  const Assumptions assumptions = on("host:1");
  const Estimate estimate = make_estimate(shipped("nam52-tiny"), assumptions);
  EXPECT_EQ(recipe::recompute_level(estimate.recipe(), 'A'), recipe::RecomputeLevel::none);
  EXPECT_EQ(to_text(estimate.recompute),
            "A, E none (the plan needs no more; whether more would cost time was not measured here)");
  EXPECT_EQ(recipe::recompute_level(estimate.requested(), 'A'), recipe::RecomputeLevel::automatic);
}

TEST(AutoRecomputeTest, WhatTheRecipeSaysIsNeverChanged) {
  const Assumptions assumptions = on("host:1", 1 << 20);
  const std::vector<std::string> given = {"train.recompute.A=selective", "train.recompute.E=none"};
  const Estimate estimate = make_estimate(shipped("nam52-tiny", given), assumptions);
  EXPECT_FALSE(estimate.fit.fits());
  EXPECT_TRUE(estimate.recompute.empty());
  EXPECT_EQ(recipe::recompute_level(estimate.recipe(), 'A'), recipe::RecomputeLevel::selective);
  EXPECT_EQ(recipe::recompute_level(estimate.recipe(), 'E'), recipe::RecomputeLevel::none);
}

TEST(AutoRecomputeTest, APlanThatDoesNotFitTakesAsMuchAsItNeeds) {
  const recipe::Recipe recipe = shipped("nam52-tiny");
  const int64_t none = needed(make_estimate(recipe, on("host:1")));
  const int64_t full =
      needed(make_estimate(shipped("nam52-tiny", {"train.recompute.A=full", "train.recompute.E=full"}), on("host:1")));
  ASSERT_LT(full, none);
  int64_t before = none;
  for (const double share : {0.9, 0.5, 0.1, 0.0}) {
    const int64_t limit = full + static_cast<int64_t>(share * static_cast<double>(none - full));
    const Estimate estimate = make_estimate(recipe, on("host:1", limit));
    EXPECT_TRUE(estimate.fit.fits()) << share;
    EXPECT_LE(needed(estimate), before) << share;
    EXPECT_NE(to_text(estimate.recompute).find("does not fit with less"), std::string::npos);
    const Estimate again = make_estimate(recipe, on("host:1", limit));
    EXPECT_EQ(again.recipe(), estimate.recipe()) << "the same hardware, the same answer";
    before = needed(estimate);
  }
  const Estimate hopeless = make_estimate(recipe, on("host:1", full - 1));
  EXPECT_FALSE(hopeless.fit.fits());
  EXPECT_EQ(needed(hopeless), full) << "what needs the least";
}

// Sequences over chips: what full recompute makes again is there beside gradients that travel, and can be more than
// selective keeps. Which of these lengths show it follows from the passes; one must.
TEST(AutoRecomputeTest, LevelsBelowFullAreTakenWhereFullNeedsMore) {
  struct Row {
    const char *recipe, *sequence;
  };
  int shown = 0;
  for (const Row& row : {Row{"nam52-tiny", "128"}, Row{"nam52-tiny", "256"}, Row{"nam56r-tiny", "32"}}) {
    SCOPED_TRACE(fmt::format("{} {}", row.recipe, row.sequence));
    const auto planned = [&row](const char* level, int64_t limit = 0) {
      Assumptions assumptions = on("v6e:2x2");
      if (limit > 0) assumptions.limits.assign(4, limit);
      return make_estimate(shipped(row.recipe, {"layout.data_parallel=2", "layout.context_parallel=2", "layout.zero=1",
                                                "train.precision=bf16", "train.batch=4", "train.micro_steps=1",
                                                fmt::format("train.sequence={}", row.sequence),
                                                fmt::format("train.recompute={}", level)}),
                           assumptions);
    };
    const int64_t selective = needed(planned("selective")), full = needed(planned("full"));
    if (selective >= full || needed(planned("none")) <= selective) continue;
    ++shown;
    const Estimate found = planned("auto", selective);
    EXPECT_TRUE(found.fit.may_fit());
    EXPECT_LE(needed(found), selective);
    EXPECT_LE(needed(planned("auto", selective - 1)), selective) << "what needs the least, where that is not full";
  }
  EXPECT_GT(shown, 0);
}

// Where a compiler leaves gaps: with levels that surely fit for who plans, with what may fit for who can ask.
TEST(AutoRecomputeTest, APlanIsRaisedUntilItSurelyFitsWhereThatCanBe) {
  const recipe::Recipe recipe = shipped("nam52-tiny");
  const auto with_gaps = [](int64_t limit = 0) {
    Assumptions assumptions = on("v6e:1x1", limit);
    assumptions.reserve = testing_support::reserving({.least = 0.9, .most = 1.2, .is_asked_first = true});
    return assumptions;
  };
  const auto with_all = [&](const char* level) {
    const recipe::Recipe all = shipped("nam52-tiny", {fmt::format("train.recompute={}", level)});
    return make_estimate(all, with_gaps()).fit.worst();
  };
  const auto most = [&](const char* level) { return with_all(level).reservation.most; };
  ASSERT_LT(most("full"), most("none"));
  const Assumptions roomy = with_gaps(most("none") - 1);
  const Estimate sure = make_estimate(recipe, roomy), close = make_estimate(recipe, roomy, FitVerdict::close);
  EXPECT_EQ(sure.fit.verdict(), FitVerdict::fits);
  EXPECT_NE(to_text(sure.recompute).find("only a compiler can tell whether the plan fits"), std::string::npos);
  EXPECT_EQ(close.fit.verdict(), FitVerdict::close);
  for (const char letter : {'A', 'E'})
    EXPECT_EQ(recipe::recompute_level(close.recipe(), letter), recipe::RecomputeLevel::none);

  // Where not even all of it fits for sure, what is expected to fit costs no more time in vain.
  const int64_t little = most("full") - 1;
  const Estimate nearest = make_estimate(recipe, with_gaps(little));
  EXPECT_EQ(nearest.fit.verdict(), FitVerdict::close);
  EXPECT_LE(nearest.fit.worst().needed(), little);
}

}  // namespace
}  // namespace megacpp::fit
