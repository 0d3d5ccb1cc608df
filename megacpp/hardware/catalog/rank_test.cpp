// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/rank.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace megacpp::catalog {
namespace {

class RankTest : public testing::Test {
 protected:
  static Signature layout(const std::string& name) { return {.model = "m", .layout = name}; }
  static Candidate candidate(const std::string& name, double seconds) {
    return {.signature = layout(name), .step_seconds = {{"step", seconds}}};
  }
  std::vector<std::string> order(const std::vector<Candidate>& candidates) {
    std::vector<std::string> names;
    ranked_ = rank(catalog_, "cpu", candidates);
    for (const Ranked& ranked : ranked_) names.push_back(candidates[ranked.candidate].signature.layout);
    return names;
  }

  testing_support::TemporaryFolder folder_;
  Catalog catalog_ = Catalog::open(folder_ / "c.sqlite");
  std::vector<Ranked> ranked_;
};

using Names = std::vector<std::string>;

TEST_F(RankTest, WithoutMemoryThePredictionDecides) {
  EXPECT_EQ(order({candidate("slow", 2), candidate("fast", 1), candidate("also fast", 1)}),
            (Names{"fast", "also fast", "slow"}));
  EXPECT_EQ(ranked_[0].reason, "never tried, 1.00 s a step predicted");
}

TEST_F(RankTest, AnotherBuildsFailureIsJudgedByEstimateAgain) {
  Signature other = layout("failed there");
  other.build.code_version = "0.0.9";
  catalog_.record({.signature = other, .at = "t1", .fits = false});
  other = layout("ran there");
  other.build.code_version = "0.0.9";
  catalog_.record({.signature = other, .at = "t2", .measured_seconds = 3});
  EXPECT_EQ(order({candidate("ran there", 9), candidate("failed there", 1)}), (Names{"failed there", "ran there"}));
  EXPECT_EQ(ranked_[0].reason,
            "never tried, 1.00 s a step predicted; failed on t1 by another build or machine (0.0.9)");
  EXPECT_EQ(ranked_[1].reason, "ran on t2 by another build or machine (0.0.9) at 3.00 s a step");
}

TEST_F(RankTest, TimesOfAnotherMachineDecideNothing) {
  Signature other = layout("ran there");
  other.build.threads = 64;
  catalog_.record({.signature = other, .at = "t1", .measured_seconds = 0.1});
  EXPECT_EQ(order({candidate("ran there", 9), candidate("new", 1)}), (Names{"new", "ran there"}));
  EXPECT_EQ(ranked_[1].seconds, 9);
  EXPECT_FALSE(ranked_[1].is_measured);
  EXPECT_EQ(ranked_[1].reason,
            "fitted on t1 by another build or machine (, 64 threads a chip), step not timed on this machine");
}

TEST_F(RankTest, MeasuredAndPredictedTimesDecideTogetherAndWhatFailedIsLast) {
  catalog_.record({.signature = layout("ran slowly"), .at = "t1", .measured_seconds = 9});
  catalog_.record({.signature = layout("ran"), .at = "t2", .measured_seconds = 5});
  catalog_.record({.signature = layout("failed"),
                   .at = "t3",
                   .fits = false,
                   .oom_class = "runtime",
                   .phase = "run step 2",
                   .chip = "chip 3"});
  Candidate large = candidate("large", 0.1);
  large.fits = false;
  large.why_not = "chip 0 needs 3 GiB more";
  EXPECT_EQ(
      order({candidate("failed", 0.1), large, candidate("new", 1), candidate("ran slowly", 1), candidate("ran", 2)}),
      (Names{"new", "ran", "ran slowly", "large", "failed"}));
  EXPECT_EQ(ranked_[0].seconds, 1);
  EXPECT_FALSE(ranked_[0].is_measured);
  EXPECT_EQ(ranked_[1].reason, "ran on t2 at 5.00 s a step");
  EXPECT_EQ(ranked_[1].seconds, 5);
  EXPECT_TRUE(ranked_[1].is_measured);
  EXPECT_EQ(ranked_[3].seconds, std::nullopt);
  EXPECT_EQ(ranked_[3].reason, "chip 0 needs 3 GiB more");
  EXPECT_EQ(ranked_[3].standing, Standing::too_large);
  EXPECT_EQ(ranked_[4].reason, "failed on t3 at run step 2 (runtime out of memory) on chip 3");
  EXPECT_EQ(ranked_[4].standing, Standing::failed);
}

TEST_F(RankTest, WhatRanBeatsThePaperThatSaysItDoesNotFit) {
  catalog_.record({.signature = layout("ran"), .at = "t"});
  Candidate ran = candidate("ran", 3), large = candidate("large", 2);
  ran.fits = large.fits = false;
  EXPECT_EQ(order({large, ran, candidate("new", 1)}), (Names{"new", "ran", "large"}));
  EXPECT_EQ(ranked_[1].reason, "fitted on t, step not timed");
  EXPECT_EQ(ranked_[1].seconds, 3);
  EXPECT_FALSE(ranked_[1].is_measured);
}

// Where predictions are too short by half, what is predicted at a bit less than a measured time is slower.
TEST_F(RankTest, WhatRanIsComparedWithCorrectedPredictions) {
  for (int i = 0; i < 4; ++i)
    catalog_.record_calibration({.signature = layout("measured " + std::to_string(i)),
                                 .at = "t",
                                 .lane = "cpu",
                                 .quantity = kStepSeconds,
                                 .parts = {{"step", 1.0 + i}},
                                 .measured = 2.0 * (1 + i)});
  catalog_.record({.signature = layout("ran"), .at = "t", .measured_seconds = 3});
  EXPECT_EQ(order({candidate("slower", 2.5), candidate("ran", 1.5), candidate("faster", 1)}),
            (Names{"faster", "ran", "slower"}));
}

TEST_F(RankTest, TheNewestOutcomeCounts) {
  catalog_.record({.signature = layout("a"), .at = "1", .measured_seconds = 1});
  catalog_.record({.signature = layout("a"), .at = "2", .fits = false});
  EXPECT_EQ(order({candidate("a", 1), candidate("b", 2)}), (Names{"b", "a"}));
}

// Time spent waiting for links was predicted far too short, so a candidate that computes more but waits less wins.
TEST_F(RankTest, UnknownOnesAreOrderedByTheCorrectedPrediction) {
  const auto parts = [](double compute, double links) {
    return std::vector<Part>{{"compute", compute}, {"links", links}};
  };
  for (int i = 0; i < 8; ++i) {
    const double compute = 1 + i % 3, links = 1 + i % 4;
    catalog_.record_calibration({.signature = layout("measured " + std::to_string(i)),
                                 .at = "t",
                                 .lane = "cpu",
                                 .quantity = kStepSeconds,
                                 .parts = parts(compute, links),
                                 .measured = compute + 3 * links});
  }
  EXPECT_EQ(order({{.signature = layout("waits"), .step_seconds = parts(1, 2)},
                   {.signature = layout("computes"), .step_seconds = parts(3, 0.5)}}),
            (Names{"computes", "waits"}));
  EXPECT_NEAR(*ranked_[0].seconds, 4.5, 0.2);
  EXPECT_NE(ranked_[0].reason.find("corrected by 8 measured"), std::string::npos) << ranked_[0].reason;
}

}  // namespace
}  // namespace megacpp::catalog
