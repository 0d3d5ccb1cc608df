// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/parameter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace megacpp::blocks {
namespace {

std::vector<float> drawn(const Parameter& parameter, uint64_t seed = 1, int64_t first = 0, size_t count = 4000) {
  std::vector<float> values(count);
  initialise(parameter, seed, first, values);
  return values;
}

TEST(ParameterTest, ElementsDependOnSeedNameAndIndexAlone) {
  const Parameter p{"block00.A.wq", {4000}, {}, Init::normal(0.02)};
  const std::vector<float> whole = drawn(p), part = drawn(p, 1, 1000, 50);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[1000 + i]);
  EXPECT_NE(whole, drawn(p, 2));
  EXPECT_NE(whole, drawn({"block01.A.wq", {4000}, {}, Init::normal(0.02)}));
}

TEST(ParameterTest, NormalHasItsDeviation) {
  double sum = 0, squares = 0;
  for (const double value : drawn({"w", {4000}, {}, Init::normal(0.02)})) sum += value, squares += value * value;
  EXPECT_NEAR(sum / 4000, 0.0, 0.002);
  EXPECT_NEAR(std::sqrt(squares / 4000), 0.02, 0.001);
}

TEST(ParameterTest, ConstantsAndHeadNumbers) {
  EXPECT_EQ(drawn({"w", {3}, {}, Init::ones()}, 1, 0, 3), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(drawn({"w", {3}, {}, Init::zeros()}, 1, 0, 3), (std::vector<float>{0, 0, 0}));
  const std::vector<float> logs = drawn({"A_log", {8}, {}, {.kind = Init::Kind::log_uniform_int}}, 1, 0, 8);
  for (size_t i = 0; i < logs.size(); ++i) EXPECT_FLOAT_EQ(std::exp(logs[i]), static_cast<float>(i + 1));
}

TEST(ParameterTest, TimeStepsFallInTheirRangeAfterSoftplus) {
  const Init init{.kind = Init::Kind::dt_bias, .a = 1e-3, .b = 0.1, .c = 2e-3};
  double least = 1, most = 0;
  for (const double bias : drawn({"dt_bias", {4000}, {}, init})) {
    const double dt = std::log1p(std::exp(bias));
    least = std::min(least, dt);
    most = std::max(most, dt);
  }
  EXPECT_NEAR(least, 2e-3, 1e-5) << "the floor";
  EXPECT_NEAR(most, 0.1, 0.002);
}

TEST(ParameterTest, RecurrenceStartsWithDecayInItsRange) {
  const Init init{.kind = Init::Kind::rg_lru, .a = 0.9, .b = 0.999};
  double least = 1, most = 0;
  for (const double p : drawn({"p", {4000}, {}, init})) {
    const double decay = std::exp(-std::log1p(std::exp(p)));
    least = std::min(least, decay);
    most = std::max(most, decay);
  }
  EXPECT_NEAR(least, 0.9, 0.005);
  EXPECT_NEAR(most, 0.999, 0.005);
}

// ---- Distributions ----

/// What is drawn, as the quantity whose distribution is stated, and how much of it lies below a value.
struct Distribution {
  const char* name;
  Init init;
  std::function<double(double)> quantity;     // of a drawn value
  std::function<double(double)> share_below;  // of that quantity, exactly
};

double softplus_of(double value) { return std::log1p(std::exp(value)); }

// Ranges are wide, so that a draw by another law lies far from the stated one.
const std::vector<Distribution>& distributions() {
  static const std::vector<Distribution> all = {
      {"normal", Init::normal(0.02), [](double value) { return value; },
       [](double value) { return 0.5 * std::erfc(-value / (0.02 * std::numbers::sqrt2)); }},
      {"time steps",
       {.kind = Init::Kind::dt_bias, .a = 1e-3, .b = 1.0},
       softplus_of,
       [](double dt) { return std::log(dt / 1e-3) / std::log(1.0 / 1e-3); }},
      {"decay",
       {.kind = Init::Kind::rg_lru, .a = 0.2, .b = 0.999},
       [](double p) { return std::exp(-softplus_of(p)); },
       [](double rho) { return (rho * rho - 0.04) / (0.999 * 0.999 - 0.04); }},
  };
  return all;
}

// The greatest distance between the share of draws below a value and what it should be, which exceeds 2 / sqrt(count)
// once in a thousand seeds (Kolmogorov and Smirnov). The seed is fixed.
TEST(ParameterTest, DrawsAreDistributedAsStated) {
  constexpr size_t kCount = 20000;
  for (const Distribution& distribution : distributions()) {
    std::vector<double> shares;
    for (const double value : drawn({"w", {kCount}, {}, distribution.init}, 1, 0, kCount))
      shares.push_back(distribution.share_below(distribution.quantity(value)));
    std::ranges::sort(shares);
    double distance = 0;
    for (size_t i = 0; i < kCount; ++i)
      distance = std::max({distance, std::abs(shares[i] - static_cast<double>(i) / kCount),
                           std::abs(shares[i] - static_cast<double>(i + 1) / kCount)});
    EXPECT_LT(distance, 2 / std::sqrt(static_cast<double>(kCount))) << distribution.name;
  }
}

TEST(ParameterTest, TheFloorHasTheShareOfAllShorterTimeSteps) {
  const Init init{.kind = Init::Kind::dt_bias, .a = 1e-3, .b = 0.1, .c = 1e-2};
  const std::vector<float> values = drawn({"dt_bias", {4000}, {}, init});
  const auto at_floor = std::ranges::count_if(values, [](double bias) { return softplus_of(bias) < 1.0001e-2; });
  EXPECT_NEAR(static_cast<double>(at_floor) / 4000, 0.5, 0.03);
}

TEST(ParameterTest, StarsOfAPatternStandForAnyText) {
  struct Case {
    std::string pattern, name;
    bool matches;
  };
  const std::vector<Case> cases = {
      {"", "", true},
      {"", "a", false},
      {"a", "", false},
      {"*", "", true},
      {"**", "", true},
      {"block*.A.wq", "block07.A.wq", true},
      {"block*.A.wq", "block07.A.wq.lora_a", false},
      {"*.wq", "block07.A.wq", true},
      {"*.wq", "block07.A.wqq", false},
      {"*wq*wq", "wq.wq", true},
      {"*wq*wq", "wqq", false},
      {"a*", "a", true},
      {"*ab*c", "aababc", true},  // the first "ab" is not the one that ends in c at once
      {"*a*b", "ba", false},
      {"abc", "ab", false},
  };
  for (const Case& each : cases)
    EXPECT_EQ(name_matches(each.pattern, each.name), each.matches) << each.pattern << " and " << each.name;
}

// With a search for every star a matcher takes as many steps as there are ways to share the name out between them.
TEST(ParameterTest, APatternOfManyStarsIsRefusedAtOnce) {
  EXPECT_FALSE(name_matches(std::string(200, '*') + "x", std::string(200, 'a')));
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(name_matches(pattern + "x", std::string(200, 'a')));
  EXPECT_TRUE(name_matches(pattern, std::string(200, 'a')));
}

}  // namespace
}  // namespace megacpp::blocks
