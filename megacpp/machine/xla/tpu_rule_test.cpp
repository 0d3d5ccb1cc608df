// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/tpu_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/machine/xla/reserve.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/assumptions.h"

namespace megacpp::runtime::xla {
namespace {

using Settings = std::vector<std::string>;

constexpr int64_t kCodeOfABlock = 20'000'000;

int64_t bytes_of(const fit::Reservation& reservation, const std::string& name) {
  for (const fit::ReservedTerm& term : reservation.why)
    if (term.name == name) return term.bytes;
  return 0;
}

bool has(const fit::Reservation& reservation, const std::string& name) { return bytes_of(reservation, name) > 0; }

/// In loops; every number is another power of ten, so that sums tell what is in them.
TpuStep looped_step(const std::function<void(StepParts&)>& change = {}) {
  TpuStep step{.parts = {.arguments = 1'000'000,
                         .block_weights = 200'000,
                         .outside_weights = 30'000,
                         .kept = 5'000,
                         .kept_of_block = 400,
                         .gradients = 600'000'000,
                         .logits = 70,
                         .head_weight = 800,
                         .scores = 9,
                         .sequences = 1},
               .blocks = 2,
               .off_most = 0.25};
  if (change) change(step.parts);
  return step;
}

TEST(TpuRuleTest, TermsAreThoseOfTheMomentThatHasTheMostAndAddUpToWhatIsExpected) {
  for (const bool has_loops : {true, false})
    for (const int64_t head : {800, 2'000'000'000}) {
      const fit::Reservation r = tpu_reservation(looped_step([&](StepParts& parts) {
        parts.has_loops = has_loops;
        parts.head_weight = head;
      }));
      const int64_t sum = std::accumulate(r.why.begin(), r.why.end(), int64_t{0},
                                          [](int64_t all, const fit::ReservedTerm& term) { return all + term.bytes; });
      EXPECT_EQ(sum, r.expected);
      for (const fit::ReservedTerm& term : r.why) EXPECT_TRUE(term.sentence.ends_with('.')) << term.name;
      EXPECT_EQ(has(r, "head"), head > 1000 || !has_loops);
      EXPECT_LE(r.least, r.expected);
      EXPECT_LE(r.expected, r.most);
      EXPECT_TRUE(r.is_asked_first);
    }
}

TEST(TpuRuleTest, TheBackwardLoopHoldsGradientsScoresAndValuesOfSomeBlocks) {
  const fit::Reservation one = tpu_reservation(looped_step());
  EXPECT_EQ(bytes_of(one, "arguments"), 1'000'000);
  EXPECT_EQ(bytes_of(one, "weights in f32"), 30'000);
  EXPECT_EQ(bytes_of(one, "kept by blocks"), 5'000);
  EXPECT_EQ(bytes_of(one, "weights in bf16"), 100'000);
  EXPECT_EQ(bytes_of(one, "gradients"), 600'000'000);
  EXPECT_EQ(bytes_of(one, "scores"), 6 * 9);
  EXPECT_EQ(bytes_of(one, "values of blocks"), 1'000);
  EXPECT_EQ(bytes_of(one, "code"), 2 * kCodeOfABlock);
  EXPECT_EQ(one.alive, one.expected - bytes_of(one, "gaps") - bytes_of(one, "code"));
  EXPECT_EQ(bytes_of(one, "gaps"), std::llround(0.01 * static_cast<double>(one.alive)));
  EXPECT_FALSE(
      has(tpu_reservation(looped_step([](StepParts& parts) { parts.gathers_weights = true; })), "weights in f32"));
}

// Of several sequences XLA may or may not hold scores in bf16 beside those in f32, which widens the range.
TEST(TpuRuleTest, ScoresOfSeveralSequencesAreLessSure) {
  const auto with = [](int64_t sequences) {
    return tpu_reservation(looped_step([&](StepParts& parts) {
      parts.sequences = sequences;
      parts.scores = 1'000'000'000;
    }));
  };
  const fit::Reservation one = with(1), two = with(2);
  EXPECT_EQ(bytes_of(one, "scores"), 6'000'000'000);
  EXPECT_EQ(bytes_of(two, "scores"), 5'000'000'000);
  EXPECT_NEAR(static_cast<double>(one.most), 1.25 * static_cast<double>(one.expected), 1.01 * kSmallBuffers);
  EXPECT_GT(two.most, std::llround(1.25 * static_cast<double>(two.expected + 1'000'000'000)));
  EXPECT_LT(two.least, std::llround(static_cast<double>(two.expected - 1'000'000'000) / 1.25));
}

// Where the head's work holds the most anyway it comes behind that of the blocks, which hold the logits then.
TEST(TpuRuleTest, BlocksHoldLogitsOfSeveralMicroStepsWhereTheHeadHoldsMore) {
  const auto with = [](int64_t logits, bool adds_sums) {
    return tpu_reservation(looped_step([&](StepParts& parts) {
      parts.logits = logits;
      parts.head_weight = 0;
      parts.adds_sums = adds_sums;
    }));
  };
  const fit::Reservation several = with(1'000'000, true);
  EXPECT_EQ(bytes_of(several, "logits"), 1'000'000) << "beside the sums the head holds more than the blocks";
  EXPECT_FALSE(has(with(1'000'000, false), "logits"));
  EXPECT_FALSE(has(with(1'000, true), "logits")) << "the blocks hold more, and the head's work comes first";
}

TEST(TpuRuleTest, AnUpdateMakesAllThatIsOutsideBlocksAnew) {
  const fit::Reservation update = tpu_reservation(looped_step([](StepParts& parts) {
    parts.gradients = 0;
    parts.all_gradients = 40'000'000;
    parts.outside_state = 3'000'000;
  }));
  EXPECT_EQ(bytes_of(update, "gradients"), 40'000'000);
  EXPECT_EQ(bytes_of(update, "new state"), 3'000'000);
  EXPECT_FALSE(has(update, "kept by blocks"));
}

TEST(TpuRuleTest, UnrolledBlocksHaveTermsOfTheirOwn) {
  const auto with = [](const std::function<void(StepParts&)>& change) {
    return tpu_reservation(looped_step([&](StepParts& parts) {
      parts.has_loops = false;
      parts.gradients = 1'000'000;
      parts.block_scores = parts.scores_at_once = 10'000'000;
      parts.computed_weights = 800'000;
      parts.copied_weights = 7'000;
      change(parts);
    }));
  };
  const fit::Reservation plain = with([](StepParts&) {});
  EXPECT_EQ(bytes_of(plain, "scores"), 60'000'000);
  EXPECT_FALSE(has(plain, "weights in f32") || has(plain, "weights in bf16") || has(plain, "sums"));
  EXPECT_EQ(bytes_of(plain, "gaps"), std::llround(0.06 * static_cast<double>(plain.alive)));
  EXPECT_EQ(bytes_of(with([](StepParts& parts) { parts.scores_at_once *= 2; }), "scores"), 100'000'000);
  EXPECT_EQ(bytes_of(with([](StepParts& parts) { parts.gathers_updates = true; }), "weights in f32"), 7'000);
  const fit::Reservation sums = with([](StepParts& parts) { parts.adds_sums = parts.gathers_weights = true; });
  EXPECT_EQ(bytes_of(sums, "sums"), 1'000'000);
  EXPECT_EQ(bytes_of(sums, "weights in bf16"), 115'000) << "converted before the loop over micro-steps";
  EXPECT_EQ(bytes_of(sums, "gathered early"), 100'000) << "a quarter, more or less, of those in bf16";
  const fit::Reservation update = with([](StepParts& parts) {
    parts.reduces_gradients = true;
    parts.gradients = 1'000'000'000;
  });
  EXPECT_EQ(bytes_of(update, "gradients"), 1'000'000'000);
  EXPECT_FALSE(has(update, "scores")) << "no more when the update has the most";
}

TEST(TpuRuleTest, TheRangeIsNeverBelowStateAndHasRoomForTheLargestBuffer) {
  const fit::Reservation state = tpu_reservation(looped_step([](StepParts& parts) { parts.gradients = 0; }));
  EXPECT_EQ(state.least, 1'000'000 + 2 * kCodeOfABlock);
  EXPECT_EQ(state.state, 1'000'000);
  const fit::Reservation large =
      tpu_reservation(looped_step([](StepParts& parts) { parts.head_weight = 900'000'000; }));
  EXPECT_EQ(large.most, large.expected + 900'000'000 + kSmallBuffers) << "it may find no room in one piece";
}

// ---- Of steps that were compiled

// Four AE pairs in a loop of four, nothing recomputed unless the settings say so.
recipe::Recipe looped_recipe(const Settings& more = {}) {
  Settings settings = {"model.pattern=AE", "model.depth=8",          "train.precision=bf16",
                       "train.batch=4",    "train.micro_steps=1",    "layout.data_parallel=4",
                       "layout.zero=3",    "train.recompute.A=none", "train.recompute.E=none"};
  settings.insert(settings.end(), more.begin(), more.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
}

fit::Assumptions by_xla(const std::string& hardware = "v6e:2x2") {
  fit::Assumptions assumptions = testing_support::test_assumptions(hardware);
  assumptions.reserve = reserve;
  return assumptions;
}

fit::Reservation planned(const Settings& more = {}, const fit::Assumptions& assumptions = by_xla()) {
  return fit::make_estimate(looped_recipe(more), assumptions).fit.worst().reservation;
}

bool is_by_rule(const fit::Reservation& reservation) { return !reservation.why.empty(); }

TEST(TpuRuleTest, CodeGrowsWithTheBlocksThatHaveText) {
  EXPECT_EQ(planned().code, 2 * kCodeOfABlock);
  EXPECT_EQ(planned({"model.depth=16"}).code, planned().code) << "longer loops";
  EXPECT_EQ(planned({"model.depth=9"}).code, 3 * kCodeOfABlock) << "a block behind the loop";
  EXPECT_EQ(planned({"xla.loops=off"}).code, 8 * kCodeOfABlock);
}

TEST(TpuRuleTest, ItHoldsForStepsLikeThoseThatWereRecorded) {
  EXPECT_TRUE(is_by_rule(planned()));
  EXPECT_TRUE(is_by_rule(planned({"xla.loops=off"})));
  EXPECT_TRUE(is_by_rule(planned({"train.sequence=8192"}))) << "in loops";
  EXPECT_FALSE(is_by_rule(planned({"train.sequence=8192", "xla.loops=off"})));
  EXPECT_FALSE(is_by_rule(planned({"xla.placement=xla"})));
  EXPECT_FALSE(is_by_rule(planned({"train.precision=f32"})));
  EXPECT_FALSE(is_by_rule(planned({}, by_xla("v5e:2x2")))) << "nobody held it against steps for that";
}

TEST(TpuRuleTest, WithoutItLessMayBeReservedThanIsPlanned) {
  const hw::CompiledByXla known = hw::find_chip("v6e").xla;
  const fit::ChipGroup worst = fit::make_estimate(looped_recipe({"xla.placement=xla"}), by_xla()).fit.worst();
  const auto part = [&](double of_plan) { return std::llround(of_plan * static_cast<double>(worst.planned)); };
  EXPECT_EQ(worst.needed(), worst.planned + known.code_most);
  EXPECT_EQ(worst.reservation.least, part(known.gaps_least) + known.code_least);
  EXPECT_EQ(worst.reservation.most, part(known.gaps_most) + known.code_most);
  const fit::Reservation state = planned({"xla.placement=xla", "train.sequence=16"});
  EXPECT_EQ(state.least, state.state + known.code_least) << "state is exact";
  const fit::Reservation unrolled = planned({"train.sequence=8192", "xla.loops=off"});
  EXPECT_EQ(unrolled.least, unrolled.state + known.code_least) << "much may be made again";
}

// Its terms are found for the whole model from what shallow ones have of each.
TEST(TpuRuleTest, ADeepModelsReservationIsThatOfTheWhole) {
  for (const char* loops : {"xla.loops=on", "xla.loops=off"}) {
    const Settings deep = {"model.depth=112", loops};
    fit::Assumptions assumptions = by_xla();
    const fit::Reservation whole = planned(deep, assumptions);
    assumptions.most_planned_whole = 64;
    const fit::Estimate found = fit::make_estimate(looped_recipe(deep), assumptions);
    ASSERT_TRUE(found.shallow) << loops;
    const fit::Reservation& extended = found.fit.worst().reservation;
    ASSERT_TRUE(is_by_rule(extended));
    EXPECT_NEAR(static_cast<double>(extended.expected) / static_cast<double>(whole.expected), 1, 1e-3) << loops;
    EXPECT_NEAR(static_cast<double>(extended.most) / static_cast<double>(whole.most), 1, 1e-3) << loops;
  }
}

}  // namespace
}  // namespace megacpp::runtime::xla
