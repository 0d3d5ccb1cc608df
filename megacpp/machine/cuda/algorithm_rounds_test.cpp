// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/algorithm_rounds.h"

#include <gtest/gtest.h>

#include <functional>

namespace megacpp::runtime::cuda {
namespace {

/// Of a candidate, when it is timed as the i-th of all.
using Seconds = std::function<double(size_t candidate, size_t i)>;

struct Outcome {
  size_t best = 0;
  std::vector<size_t> times;  // by candidate
  size_t after_first = 0;     // times after the first round
};

Outcome run_rounds(size_t candidates, const Seconds& seconds) {
  AlgorithmRounds rounds(candidates);
  Outcome outcome{.times = std::vector<size_t>(candidates)};
  size_t total = 0;
  for (std::vector<size_t> round = rounds.round(); !round.empty(); round = rounds.round()) {
    for (const size_t candidate : round) {
      rounds.add(candidate, seconds(candidate, total++));
      ++outcome.times[candidate];
    }
    rounds.end_round();
  }
  outcome.best = rounds.best();
  outcome.after_first = total - candidates;
  return outcome;
}

TEST(AlgorithmRoundsTest, TheFastestWinsAndTheSlowAreTimedOnce) {
  const Outcome outcome = run_rounds(3, [](size_t candidate, size_t) { return candidate == 1 ? 1.0 : 1.3; });
  EXPECT_EQ(outcome.best, 1U);
  EXPECT_EQ(outcome.times, (std::vector<size_t>{1, 1, 1}));
}

TEST(AlgorithmRoundsTest, OneCandidateIsTimedOnce) {
  EXPECT_EQ(run_rounds(1, [](size_t, size_t) { return 1.0; }).times, (std::vector<size_t>{1}));
}

TEST(AlgorithmRoundsTest, OfThoseThatCannotBeToldApartTheFirstWins) {
  EXPECT_EQ(run_rounds(3, [](size_t candidate, size_t) { return candidate == 2 ? 1.0 : 1.004; }).best, 0U);
  EXPECT_EQ(run_rounds(3, [](size_t candidate, size_t) { return candidate == 2 ? 1.0 : 1.006; }).best, 2U);
}

TEST(AlgorithmRoundsTest, ASingleSlowTimeOfTheFastestIsForgiven) {
  const Outcome outcome =
      run_rounds(2, [](size_t candidate, size_t i) { return candidate == 0 && i != 3 ? 1.0 : 1.04; });
  EXPECT_EQ(outcome.best, 0U);
  EXPECT_EQ(outcome.times, (std::vector<size_t>{9, 9}));
}

// Each time is slower than the one before: rounds in one direction would favour the first.
TEST(AlgorithmRoundsTest, RoundsGoForwardsAndBackwards) {
  AlgorithmRounds rounds(3);
  EXPECT_EQ(rounds.round(), (std::vector<size_t>{0, 1, 2}));
  for (const size_t candidate : rounds.round()) rounds.add(candidate, 1);
  rounds.end_round();
  EXPECT_EQ(rounds.round(), (std::vector<size_t>{2, 1, 0}));
}

TEST(AlgorithmRoundsTest, TimesAfterTheFirstRoundAreBounded) {
  const Outcome all_alike = run_rounds(32, [](size_t, size_t) { return 1.0; });
  EXPECT_EQ(all_alike.best, 0U);
  EXPECT_EQ(all_alike.after_first, AlgorithmRounds::most_times_after_first());
  EXPECT_EQ(AlgorithmRounds::most_times_after_first(), 12U * 2 + 4U * 6);
}

TEST(AlgorithmRoundsTest, SmallOperandsAreTakenInTurn) {
  EXPECT_EQ(operand_sets(200, 50), 1);
  EXPECT_EQ(operand_sets(100, 50), 1);
  EXPECT_EQ(operand_sets(99, 50), 2);
  EXPECT_EQ(operand_sets(1, 50), 8) << "no more than there is time to fill";
  EXPECT_EQ(operand_sets(1, 0), 1) << "a device that does not tell of its cache";
}

}  // namespace
}  // namespace megacpp::runtime::cuda
