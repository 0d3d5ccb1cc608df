// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/support/errors.h"

namespace megacpp::train {
namespace {

const std::vector<float> kLogits = {0.0f, 2.0f, 1.0f, 2.0f, -1.0f};

std::map<int32_t, double> shares(const Sampling& sampling) {
  constexpr int kDraws = 20000;
  Sampler sampler(sampling);
  std::map<int32_t, double> shares;
  for (int i = 0; i < kDraws; ++i) shares[sampler.choose(kLogits, 0, i)] += 1.0 / kDraws;
  return shares;
}

TEST(SamplerTest, TokensAreDrawnWithTheirProbabilities) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    double sum = 0;
    for (const float logit : kLogits) sum += std::exp(logit / temperature);
    for (const auto& [token, share] : shares({.temperature = temperature}))
      EXPECT_NEAR(share, std::exp(kLogits[static_cast<size_t>(token)] / temperature) / sum, 0.015) << token;
  }
}

TEST(SamplerTest, WithoutTemperatureTheMostLikelyIsTaken) {
  EXPECT_EQ(shares({.temperature = 0}).size(), 1u);
  EXPECT_EQ(Sampler({.temperature = 0}).choose(kLogits, 0, 0), 1) << "of equal ones the first";
}

TEST(SamplerTest, OnlyTheMostLikelyAreChosenAmong) {
  EXPECT_EQ(shares({.top_k = 1}).size(), 1u);
  const auto two = shares({.top_k = 2});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(3), 0.5, 0.015);
  EXPECT_EQ(shares({.top_k = 100}).size(), kLogits.size());
  EXPECT_EQ(shares({.top_p = 0.3}).size(), 1u);
  EXPECT_EQ(shares({.top_p = 0.5}).size(), 2u);  // 0.38 each
  EXPECT_EQ(shares({.top_p = 0.8}).size(), 3u);
}

TEST(SamplerTest, AChoiceDependsOnSeedSequenceAndPositionOnly) {
  Sampler sampler({.seed = 4}), other({.seed = 4});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sampler.choose(kLogits, 1, i), other.choose(kLogits, 1, i));
  int different = 0;
  for (int i = 0; i < 50; ++i) different += sampler.choose(kLogits, 1, i) != other.choose(kLogits, 2, i) ? 1 : 0;
  EXPECT_GT(different, 5);
}

TEST(SamplerTest, SettingsOutOfRangeAreRefused) {
  using testing_support::problem_of;
  EXPECT_EQ(problem_of(base::Code::E1003, [] { Sampler({.temperature = -1}); }).where, "temperature");
  EXPECT_EQ(
      problem_of(base::Code::E1003, [] { Sampler({.temperature = std::numeric_limits<double>::quiet_NaN()}); }).where,
      "temperature");
  EXPECT_EQ(problem_of(base::Code::E1003, [] { Sampler({.top_k = -1}); }).where, "top-k");
  EXPECT_EQ(problem_of(base::Code::E1003, [] { Sampler({.top_p = 0}); }).where, "top-p");
}

}  // namespace
}  // namespace megacpp::train
