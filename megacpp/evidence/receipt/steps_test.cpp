// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/steps.h"

#include <gtest/gtest.h>

#include "tests/support/clean_receipt.h"

namespace megacpp::receipt {
namespace {

using testing_support::clean_receipt;
using testing_support::steady_reports;
using train::StepReport;

/// As a backend that runs ahead logs them: the first step, then `each` steps at a time, the last ones fewer.
std::vector<StepReport> windows(int64_t steps, int64_t each) {
  std::vector<StepReport> reports = {{.step = 0, .steps = 1, .seconds = 0.5, .tokens = 10}};
  for (int64_t done = 1; done < steps;) {
    const int64_t count = std::min(each, steps - done);
    done += count;
    reports.push_back(
        {.step = done - 1, .steps = count, .seconds = 0.01 * static_cast<double>(count), .tokens = 10 * count});
  }
  return reports;
}

Receipt receipt_of_steps(std::vector<StepReport> reports, int64_t requested) {
  Receipt receipt;
  receipt.ending.requested_steps = requested;
  add_steps(receipt, std::move(reports));
  return receipt;
}

TEST(StepsTest, ColdWarmUpAndSteadyAreDisjointAndWhole) {
  const Receipt receipt = receipt_of_steps(steady_reports(150), 150);
  const Times& times = receipt.times;
  EXPECT_EQ(times.first->steps, 1);
  EXPECT_EQ(times.warm_up->first_step, 1);
  EXPECT_EQ(times.warm_up->steps, 15);
  EXPECT_EQ(times.steady->first_step, 16);
  EXPECT_EQ(times.steady->steps, 134);
  EXPECT_DOUBLE_EQ(times.first->seconds, 0.5);
  EXPECT_LT(times.spread->most, 0.02) << "the first step is no part of it";
  EXPECT_EQ(times.samples.steps_each, 1);
  EXPECT_EQ(times.samples.seconds.size(), 134U);
  EXPECT_EQ(receipt.ending.steps, 150);
}

TEST(StepsTest, AsManyStepsAsAreSaidLeaveAsManySteadyOnes) {
  for (const int64_t steady : {10, 64, 128, 400, 1000}) {
    const int64_t steps = steps_with_steady(steady);
    EXPECT_GE(receipt_of_steps(steady_reports(steps), steps).times.steady->steps, steady);
    EXPECT_LT(receipt_of_steps(steady_reports(steps - 1), steps - 1).times.steady->steps, steady)
        << "no more than that";
  }
}

TEST(StepsTest, ARunThatIsNotWaitedForIsTimedFromLogToLog) {
  const Times times = receipt_of_steps(windows(96, 10), 96).times;
  EXPECT_EQ(times.warm_up->steps, 10);
  EXPECT_EQ(times.steady->steps, 85);
  EXPECT_EQ(times.samples.steps_each, 10);
  EXPECT_EQ(times.samples.seconds.size(), 8U) << "the last 5 steps are no sample of 10";
  EXPECT_NEAR(times.samples.seconds[0], 0.01, 1e-9);
}

TEST(StepsTest, SavingIsNoPartOfAStep) {
  std::vector<StepReport> reports = windows(96, 10);
  reports[4].seconds += 3;
  reports[4].saving_seconds = 3;
  EXPECT_NEAR(receipt_of_steps(reports, 96).times.spread->most, 0.01, 1e-9);
}

TEST(StepsTest, ManySamplesBecomeFewerOfMoreSteps) {
  const Times times = receipt_of_steps(steady_reports(20000), 20000).times;
  EXPECT_LE(times.samples.seconds.size(), kMostSamples);
  EXPECT_GT(times.samples.seconds.size(), kMostSamples / 2);
  EXPECT_EQ(times.samples.steps_each, 8);
  EXPECT_NEAR(times.spread->mean, times.steady->step_seconds(), 1e-5);
}

TEST(StepsTest, ShortRunsHaveNoSteadyWindow) {
  EXPECT_FALSE(receipt_of_steps({}, 10).times.first);
  EXPECT_FALSE(receipt_of_steps(steady_reports(1), 10).times.warm_up);
  const Receipt three = receipt_of_steps(steady_reports(3), 10);
  EXPECT_EQ(three.times.warm_up->steps, 2);
  EXPECT_FALSE(three.times.steady);
  EXPECT_FALSE(three.times.spread);
  EXPECT_FALSE(three.counters.steady) << "absent, not 0";
  EXPECT_EQ(three.experts.at(0).block, "block01") << "of all steps, without a steady one";
}

TEST(StepsTest, TimesOfZeroAreNotKnown) {
  std::vector<StepReport> reports = steady_reports(60);
  for (StepReport& report : reports) {
    report.seconds = 0;
    report.step_seconds.clear();
  }
  const Receipt none = receipt_of_steps(reports, 60);
  EXPECT_FALSE(none.times.first);
  EXPECT_FALSE(none.times.steady);
  EXPECT_FALSE(none.times.spread);
  EXPECT_EQ(none.ending.steps, 60) << "they were made";
  reports[0].seconds = 1;
  const Receipt one = receipt_of_steps(reports, 60);
  EXPECT_TRUE(one.times.first);
  EXPECT_FALSE(one.times.warm_up);
}

TEST(StepsTest, StepsOfTheRunBeforeAreLeftOut) {
  Receipt receipt;
  receipt.ending = {.first_step = 100, .requested_steps = 150};
  add_steps(receipt, steady_reports(150));
  EXPECT_EQ(receipt.times.first->first_step, 100);
  EXPECT_EQ(receipt.ending.steps, 150);
}

TEST(StepsTest, WhatTheSteadyWindowCountsIsItsOwn) {
  std::vector<StepReport> reports = steady_reports(150);
  reports[0].programs_made = reports[3].host_syncs = 7;  // cold and warming up
  reports[50].programs_made = 1;
  reports[60].host_syncs = 2;
  const Receipt receipt = receipt_of_steps(reports, 150);
  EXPECT_EQ(receipt.counters.steady->programs_made, 1);
  EXPECT_EQ(receipt.counters.steady->host_syncs, 2);
}

TEST(StepsTest, MfuIsOfTheSteadyWindowAndAllChips) {
  const Receipt receipt = clean_receipt();
  const double seconds = receipt.times.steady->step_seconds();
  EXPECT_DOUBLE_EQ(*receipt.mfu.value, 2e8 / (seconds * 2 * 1e11));
  EXPECT_FALSE(receipt_of_steps(steady_reports(150), 150).mfu.value) << "without a peak";
}

TEST(StepsTest, QuartilesAreThoseOfTheField) {
  const Spread spread = spread_of({4, 1, 3, 2, 5});  // as numpy.percentile has them
  EXPECT_DOUBLE_EQ(spread.lower_quartile, 2);
  EXPECT_DOUBLE_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.upper_quartile, 4);
  EXPECT_DOUBLE_EQ(spread.mean, 3);
  EXPECT_NEAR(spread.deviation, 1.5811, 1e-4);
  EXPECT_DOUBLE_EQ(spread_of({1, 2}).lower_quartile, 1.25);
}

TEST(StepsTest, ExpertsAreMeansOverTheSteadyWindow) {
  const Receipt receipt = receipt_of_steps(steady_reports(150), 150);
  ASSERT_EQ(receipt.experts.size(), 1U);
  EXPECT_DOUBLE_EQ(receipt.experts[0].imbalance, 1.5);
  EXPECT_DOUBLE_EQ(receipt.experts[0].dropped, 134);
}

}  // namespace
}  // namespace megacpp::receipt
