// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/estimate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/unrolled_blocks.h"

namespace megacpp::fit {
namespace {

using testing_support::wide_activations_recipe;
using testing_support::with_unrolled_lane;

struct Needed {
  int64_t looped = 0, unrolled = 0;
};
Needed needed_in_both(const std::vector<std::string>& more = {}, double unrolled_part = 0.6) {
  const auto bytes = [&](const char* loops) {
    std::vector<std::string> settings = more;
    settings.emplace_back(loops);
    return make_estimate(wide_activations_recipe(settings), with_unrolled_lane(0, unrolled_part)).fit.worst().needed();
  };
  return {bytes("xla.loops=on"), bytes("xla.loops=off")};
}

// The least is 0.9 of what is expected.
int64_t too_little(const Needed& bytes) { return bytes.looped * 9 / 10 - 2; }

TEST(EstimateTest, BlocksAreUnrolledWhereTheyDoNotFitInLoops) {
  const Needed bytes = needed_in_both();
  ASSERT_GT(bytes.looped, bytes.unrolled * 5 / 4);
  const int64_t below = too_little(bytes);
  const Estimate estimate = make_estimate(wide_activations_recipe(), with_unrolled_lane(below));
  EXPECT_EQ(estimate.recipe().xla.loops, recipe::XlaLoops::off);
  EXPECT_NE(estimate.fit.verdict(), FitVerdict::does_not_fit);
  EXPECT_EQ(estimate.fit.worst().needed(), bytes.unrolled);
  EXPECT_TRUE(estimate.is_unrolled());
  EXPECT_EQ(estimate.loops->looped_bytes, bytes.looped);
  EXPECT_EQ(to_text(estimate.lane), "xla v6e placement=megacpp loops=off");
  EXPECT_NE(loops_text(estimate).find("unrolled (with blocks in loops a chip needs "), std::string::npos);
  EXPECT_EQ(estimate.requested().xla.loops, recipe::XlaLoops::automatic);
  EXPECT_NE(estimate.signature, make_estimate(wide_activations_recipe(), with_unrolled_lane()).signature)
      << "another program";
}

TEST(EstimateTest, LoopsStayWhereTheyFitAndWhereNothingDoes) {
  const Needed bytes = needed_in_both();
  for (const int64_t limit : {2 * bytes.looped, bytes.unrolled / 2}) {
    const Estimate estimate = make_estimate(wide_activations_recipe(), with_unrolled_lane(limit));
    EXPECT_EQ(estimate.recipe().xla.loops, recipe::XlaLoops::on) << "nothing is left to planning";
    EXPECT_EQ(estimate.requested().xla.loops, recipe::XlaLoops::automatic);
    EXPECT_FALSE(estimate.is_unrolled());
    EXPECT_EQ(loops_text(estimate), "");
    EXPECT_EQ(to_text(estimate.lane), "xla v6e placement=megacpp");
  }
}

// Selective recompute in loops needs no more, and is compiled sooner.
TEST(EstimateTest, MoreRecomputeInLoopsComesBeforeUnrolledBlocks) {
  const std::vector<std::string> open = {"train.recompute.A=auto", "train.recompute.E=auto"};
  const int64_t below = too_little(needed_in_both());
  const Estimate estimate = make_estimate(wide_activations_recipe(open), with_unrolled_lane(below));
  EXPECT_EQ(estimate.fit.verdict(), FitVerdict::fits);
  EXPECT_FALSE(estimate.is_unrolled());
}

// A compiler decides about either, and loops are compiled sooner.
TEST(EstimateTest, LoopsThatAreCloseStayWhereUnrolledBlocksAreNoSurer) {
  const std::vector<std::string> narrow = {"model.feed_forward.intermediate=1024", "train.recompute.E=selective"};
  constexpr double kLittleLess = 0.95;
  const Needed bytes = needed_in_both(narrow, kLittleLess);
  ASSERT_LT(bytes.unrolled, bytes.looped);
  const Estimate estimate =
      make_estimate(wide_activations_recipe(narrow), with_unrolled_lane(bytes.looped, kLittleLess));
  EXPECT_EQ(estimate.fit.verdict(), FitVerdict::close);
  EXPECT_FALSE(estimate.is_unrolled());
  const Estimate again = make_estimate(estimate.recipe(), with_unrolled_lane(bytes.unrolled, kLittleLess));
  EXPECT_EQ(again.recipe().xla.loops, recipe::XlaLoops::on) << "what was decided is not decided again";
}

// What a compiler refused is a ceiling: loops that need as much are out, unrolled blocks below it are not.
TEST(EstimateTest, BelowACeilingBlocksAreUnrolledToo) {
  const Needed bytes = needed_in_both();
  const Estimate estimate =
      make_estimate(wide_activations_recipe(), with_unrolled_lane(), FitVerdict::close, {.bytes = bytes.looped});
  EXPECT_TRUE(estimate.is_unrolled());
  const Estimate again = make_estimate(estimate.recipe(), with_unrolled_lane(), FitVerdict::close);
  EXPECT_EQ(to_text(again.lane), "xla v6e placement=megacpp loops=off") << "as a ladder left it";
  EXPECT_EQ(again.signature, estimate.signature);
}

TEST(EstimateTest, WhatTheRecipeSaysOfLoopsStays) {
  const int64_t below = too_little(needed_in_both());
  Assumptions said = with_unrolled_lane(below);
  said.unrolled.reset();  // as for xla.loops: on
  const Estimate estimate = make_estimate(wide_activations_recipe({"xla.loops=on"}), said);
  EXPECT_EQ(estimate.recipe().xla.loops, recipe::XlaLoops::on);
  EXPECT_EQ(estimate.fit.verdict(), FitVerdict::does_not_fit);
}

// Of every limit between what no recompute and what full recompute needs.
TEST(EstimateTest, WithoutReasonsTheSameRecomputeIsFoundByBisection) {
  const std::string automatic = "train.recompute=auto";
  const auto needed = [](const std::string& level) {
    return make_estimate(testing_support::test_recipe({"train.recompute=" + level}),
                         testing_support::test_assumptions("host:1"))
        .fit.worst()
        .needed();
  };
  const int64_t most = needed("none"), least = needed("full");
  ASSERT_GT(most, least);
  for (int part = 0; part <= 8; ++part) {
    Assumptions assumptions = testing_support::test_assumptions("host:1", least + (most - least) * part / 8);
    const Estimate walked = make_estimate(testing_support::test_recipe({automatic}), assumptions);
    assumptions.says_why = false;
    for (const int threads : {1, 2}) {
      assumptions.threads = threads;
      const Estimate found = make_estimate(testing_support::test_recipe({automatic}), assumptions);
      EXPECT_EQ(found.recipe(), walked.recipe()) << part;
      EXPECT_EQ(found.fit.worst().needed(), walked.fit.worst().needed()) << part;
    }
  }
}

}  // namespace
}  // namespace megacpp::fit
