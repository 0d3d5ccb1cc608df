// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/stats/effect.h"

#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/core/base/philox.h"
#include "megacpp/core/stats/series_mean.h"

namespace megacpp::stats {
namespace {

/// How step times of a simulated run vary; all but stalls as standard deviations relative to the step.
struct Noise {
  std::string name;
  double phi = 0;           // memory of the part that depends on the step before
  double correlated = 0;    // size of that part
  double independent = 0;   // from step to step
  double drift = 0;         // slow: an autoregression with a memory of 100 steps
  double between_runs = 0;  // of all steps of a run alike
  double stalls = 0;        // share of steps that take up to several times as long
};

/// Autocorrelated up to 0.9, drifting, with stalls: what the false-winner rate is promised for.
const std::vector<Noise>& noises() {
  static const std::vector<Noise> table = {
      {.name = "independent", .independent = 0.025, .between_runs = 0.005},
      {.name = "phi 0.6", .phi = 0.6, .correlated = 0.02, .stalls = 0.01},
      {.name = "phi 0.8", .phi = 0.8, .correlated = 0.02, .independent = 0.01, .between_runs = 0.004},
      {.name = "phi 0.9", .phi = 0.9, .correlated = 0.02},
      {.name = "phi 0.9, stalls", .phi = 0.9, .correlated = 0.015, .independent = 0.01, .stalls = 0.04},
      {.name = "drift", .independent = 0.015, .drift = 0.008},
      {.name = "drift, stalls", .phi = 0.5, .correlated = 0.01, .drift = 0.01, .stalls = 0.02},
      {.name = "launches differ", .phi = 0.3, .correlated = 0.01, .between_runs = 0.01},
  };
  return table;
}

/// Run `number` of a noise: every one is another, and the same each time.
Series simulate(const Noise& noise, uint32_t number, size_t steps, double level = 1) {
  const base::Philox random(20261117, noise.name);
  uint64_t drawn = 0;
  const auto normal = [&] { return random.normal(drawn++, number); };
  const auto uniform = [&] { return random.uniform(drawn++, number + (1U << 31)); };
  constexpr double kSlow = 0.99;
  const double launch = noise.between_runs * normal();
  double correlated = noise.correlated * normal(), slow = noise.drift * normal();
  Series run;
  for (size_t i = 0; i < steps; ++i) {
    correlated = noise.phi * correlated + noise.correlated * std::sqrt(1 - noise.phi * noise.phi) * normal();
    slow = kSlow * slow + noise.drift * std::sqrt(1 - kSlow * kSlow) * normal();
    double time = level * std::exp(launch + correlated + slow + noise.independent * normal());
    if (noise.stalls > 0 && uniform() < noise.stalls) time *= 1 - 2 * std::log(uniform());
    run.push_back(time);
  }
  return run;
}

bool is_winner(const Effect& effect) { return effect.finding == Finding::lower || effect.finding == Finding::higher; }

// 2,000 pairs in all.
TEST(EffectTest, EqualRunsHaveAWinnerNoMoreOftenThanStated) {
  constexpr uint32_t kPairs = 125;
  for (const size_t steps : {size_t{80}, size_t{240}}) {
    size_t winners = 0, answered = 0;
    for (const Noise& noise : noises()) {
      size_t of_noise = 0;
      for (uint32_t pair = 0; pair < kPairs; ++pair) {
        const Effect effect = compare({simulate(noise, 2 * pair, steps)}, {simulate(noise, 2 * pair + 1, steps)});
        of_noise += is_winner(effect);
        answered += effect.finding != Finding::too_short;
      }
      RecordProperty(noise.name + " at " + std::to_string(steps), static_cast<int>(of_noise));
      // 125 pairs tell a rate of 5 % from one of 12 %.
      EXPECT_LE(of_noise, kPairs * 12 / 100) << noise.name << " at " << steps << " steps";
      winners += of_noise;
    }
    EXPECT_GT(answered, kPairs * noises().size() / 2) << "what is too short is no answer";
    EXPECT_LE(static_cast<double>(winners), (1 - kConfidence) * static_cast<double>(answered)) << steps << " steps";
  }
}

// The length is what the comparison of two short runs recommends.
TEST(EffectTest, AChangeOfFivePercentIsFoundNineTimesInTenAtTheRecommendedLength) {
  constexpr uint32_t kPairs = 40, kFirst = 100000;
  size_t found = 0, all = 0;
  for (const Noise& noise : noises()) {
    if (noise.drift > 0 || noise.between_runs > 0.005) continue;  // more than a single run can answer for
    for (uint32_t pair = 0; pair < kPairs; ++pair, ++all) {
      const uint32_t number = kFirst + 4 * pair;
      const size_t steps =
          compare({simulate(noise, number, 100)}, {simulate(noise, number + 1, 100)}).recommended_values;
      const Effect effect =
          compare({simulate(noise, number + 2, steps)}, {simulate(noise, number + 3, steps, 1 + kSoughtChange)});
      found += effect.finding == Finding::higher;
    }
  }
  EXPECT_GE(static_cast<double>(found), kSoughtPower * static_cast<double>(all)) << found << " of " << all;
}

TEST(EffectTest, TheSameRunTwiceIsNoDifference) {
  const Series run = simulate(noises()[1], 5, 200);
  const Effect effect = compare({run}, {run});
  EXPECT_EQ(effect.finding, Finding::no_difference);
  EXPECT_EQ(effect.ratio, 1);
  EXPECT_LT(effect.low, 1);
  EXPECT_GT(*effect.high, 1);
  EXPECT_NEAR(*effect.p_value, 1, 1e-9);
}

TEST(EffectTest, SeveralComparisonsShareWhatChanceIsAllowed) {
  EXPECT_DOUBLE_EQ(confidence_of_each(1), kConfidence);
  EXPECT_NEAR(confidence_of_each(5), 0.99, 1e-12);
  const Side one = {Series(200, 1.0)}, other = {Series(200, 1.03)};
  EXPECT_EQ(compare(one, other).finding, Finding::higher);
  EXPECT_EQ(compare(one, other, confidence_of_each(20)).finding, Finding::no_difference);
}

// Another 1 % is less than launches of one recipe may differ, however well each run is known.
TEST(EffectTest, OneRunASideAllowsForWhatLaunchesDiffer) {
  const Effect effect = compare({Series(200, 1.0)}, {Series(200, 1.01)});
  EXPECT_EQ(effect.finding, Finding::no_difference);
  EXPECT_NE(effect.test.find("1 % between launches"), std::string::npos) << effect.test;
  EXPECT_EQ(compare({Series(200, 1.0)}, {Series(200, 1.05)}).finding, Finding::higher);
  EXPECT_EQ(compare({Series(200, 1.05)}, {Series(200, 1.0)}).finding, Finding::lower);
}

TEST(EffectTest, SeveralRunsASideMeasureWhatLaunchesDiffer) {
  const Side baseline = {Series(50, 1.000), Series(50, 1.001), Series(50, 0.999)};
  const Side other = {Series(50, 1.010), Series(50, 1.011), Series(50, 1.009)};
  const Effect effect = compare(baseline, other);
  EXPECT_EQ(effect.finding, Finding::higher);
  EXPECT_NEAR(effect.ratio, 1.01, 1e-4);
  EXPECT_EQ(effect.test, "Welch's t on 3 and 3 runs");
  const Side loud = {Series(50, 0.95), Series(50, 1.05), Series(50, 1.02)};
  EXPECT_EQ(compare(loud, other).finding, Finding::no_difference);
  EXPECT_GT(compare(loud, other).recommended_runs, 3U);
  EXPECT_EQ(compare(baseline, {other[0]}).finding, Finding::higher) << "one run, judged by the other side's repeats";
}

// By hand: the variance of launches that differ by 1 % is 1e-4; four degrees of freedom may have shown less than half
// of it, a hundred hardly less. r runs a side find 5 % where (t(0.975) + t(0.9)) sqrt(2 variance / r) < log 1.05.
TEST(EffectTest, MoreRunsAreRecommendedTheFewerHaveShownTheirSpread) {
  const auto recommended = [](size_t runs, double spread) {
    Side side;
    for (size_t run = 0; run < runs; ++run)
      side.emplace_back(50, 1 + spread * (run % 3 == 0 ? 0.0 : run % 3 == 1 ? 1.0 : -1.0));
    return compare(side, side).recommended_runs;
  };
  EXPECT_EQ(recommended(3, 0.01), 4U);
  EXPECT_EQ(recommended(51, 0.01), 3U);
  EXPECT_GT(recommended(3, 0.03), recommended(51, 0.03));
  EXPECT_LT(recommended(3, 0.03), 30U);
}

TEST(EffectTest, EqualSidesOfSeveralRunsHaveAWinnerNoMoreOftenThanStated) {
  constexpr uint32_t kSides = 300, kRuns = 3, kFirst = 200000;
  const Noise& noise = noises().back();
  size_t winners = 0;
  for (uint32_t pair = 0; pair < kSides; ++pair) {
    Side sides[2];
    for (uint32_t run = 0; run < 2 * kRuns; ++run)
      sides[run % 2].push_back(simulate(noise, kFirst + 2 * kRuns * pair + run, 40));
    winners += is_winner(compare(sides[0], sides[1]));
  }
  EXPECT_LE(winners, kSides * 8 / 100);  // 300 pairs tell a rate of 5 % from one of 8 %
}

TEST(EffectTest, OneRunAgainstSeveralMustBeKnownAsWellAsTheyAre) {
  const Side several = {Series(50, 1.000), Series(50, 1.001), Series(50, 0.999)};
  const Effect short_one = compare(several, {Series(5, 1.2)});
  EXPECT_EQ(short_one.finding, Finding::too_short);
  EXPECT_FALSE(short_one.high.has_value());
  Series noisy = simulate(noises()[0], 3, 40);
  for (size_t i = 0; i < noisy.size(); ++i) noisy[i] *= i % 2 == 0 ? 1.2 : 0.84;
  EXPECT_EQ(compare(several, {noisy}).finding, Finding::no_difference);
  EXPECT_EQ(compare({noisy}, several).finding, Finding::no_difference);
}

TEST(EffectTest, OneRunAgainstEqualOnesHasAWinnerNoMoreOftenThanStated) {
  constexpr uint32_t kTries = 300, kRuns = 4, kFirst = 300000;
  const Noise& noise = noises().back();
  size_t winners = 0;
  for (uint32_t number = 0; number < kTries; ++number) {
    Side several;
    for (uint32_t run = 1; run < kRuns; ++run) several.push_back(simulate(noise, kFirst + kRuns * number + run, 40));
    winners += is_winner(compare(several, {simulate(noise, kFirst + kRuns * number, 40)}));
  }
  EXPECT_LE(winners, kTries * 8 / 100);
}

// As many as the comparison of three runs a side recommends.
TEST(EffectTest, AChangeOfFivePercentIsFoundNineTimesInTenWithTheRecommendedRuns) {
  constexpr uint32_t kTries = 60, kPilot = 3, kFirst = 400000, kStride = 1000;
  const Noise noise{.name = "launches differ much", .phi = 0.3, .correlated = 0.01, .between_runs = 0.02};
  const auto sides = [&](uint32_t number, size_t runs, double change) {
    std::vector<Side> two(2);
    for (uint32_t run = 0; run < 2 * runs; ++run)
      two[run % 2].push_back(simulate(noise, number + run, 40, run % 2 == 0 ? 1 : change));
    return two;
  };
  size_t found = 0;
  for (uint32_t number = 0; number < kTries; ++number) {
    const std::vector<Side> pilot = sides(kFirst + kStride * number, kPilot, 1);
    const size_t runs = compare(pilot[0], pilot[1]).recommended_runs;
    const std::vector<Side> whole = sides(kFirst + kStride * number + 2 * kPilot, runs, 1 + kSoughtChange);
    found += compare(whole[0], whole[1]).finding == Finding::higher;
  }
  EXPECT_GE(static_cast<double>(found), kSoughtPower * kTries) << found << " of " << kTries;
}

TEST(EffectTest, ShortRunsSayHowLongTheyShouldBe) {
  const Effect few = compare({Series(10, 1.0)}, {Series(10, 1.2)});
  EXPECT_EQ(few.finding, Finding::too_short);
  EXPECT_FALSE(few.high.has_value());
  EXPECT_NE(few.too_short.find("10 timed values, 32 are the least"), std::string::npos) << few.too_short;
  EXPECT_GT(few.recommended_values, kLeastValues);
  const Noise& slow = noises()[3];
  const Effect dependent = compare({simulate(slow, 1, 60)}, {simulate(slow, 2, 60)});
  EXPECT_EQ(dependent.finding, Finding::too_short);
  EXPECT_NE(dependent.too_short.find("independent ones"), std::string::npos) << dependent.too_short;
  EXPECT_GT(dependent.recommended_values, 200U);
}

}  // namespace
}  // namespace megacpp::stats
