// SPDX-License-Identifier: Apache-2.0
// Schedules against their formulas, and at their edges.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/program/optim/schedule.h"

namespace megacpp::optim {
namespace {

TEST(LearningRateTest, EveryRecordIsWhole) {
  std::set<std::string_view> names;
  EXPECT_EQ(all_schedules()[0].name, Optimizer{}.schedule) << "the default stands first";
  for (const ScheduleDef& schedule : all_schedules()) {
    EXPECT_TRUE(names.insert(schedule.name).second && !schedule.doc.empty() && schedule.rate != nullptr)
        << schedule.name;
    EXPECT_EQ(&schedule_def(schedule.name), &schedule);
  }
}

TEST(LearningRateTest, AnUnknownNameIsAnErrorThatNamesThoseThereAre) {
  try {
    schedule_def("step");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1003);
    EXPECT_EQ(error.problem().wanted, "one of cosine, linear, constant, wsd");
  }
}

TEST(LearningRateTest, EveryScheduleWarmsUpLinearlyToThePeak) {
  for (const ScheduleDef& schedule : all_schedules()) {
    const Optimizer optimizer{.lr = 1.0, .warmup_steps = 4, .schedule = std::string(schedule.name)};
    EXPECT_EQ(learning_rate(optimizer, 0, 100), 0.25) << schedule.name;
    EXPECT_EQ(learning_rate(optimizer, 3, 100), 1.0) << schedule.name << ": the last step of the warm-up";
    EXPECT_EQ(learning_rate(optimizer, 4, 100), 1.0) << schedule.name << ": the first after it";
    EXPECT_EQ(learning_rate(optimizer, 1, 2), 0.5) << schedule.name << ": a run that ends in its warm-up";
  }
}

TEST(LearningRateTest, ARunOfOneStepIsAtThePeak) {
  for (const ScheduleDef& schedule : all_schedules())
    for (const int64_t warmup : {0, 1}) {
      const Optimizer optimizer{.lr = 0.5, .warmup_steps = warmup, .schedule = std::string(schedule.name)};
      EXPECT_EQ(learning_rate(optimizer, 0, 1), 0.5) << schedule.name;
    }
}

TEST(LearningRateTest, CosineAndLinearFollowTheirFormulas) {
  Optimizer optimizer{.lr = 2.0, .min_lr_ratio = 0.1, .warmup_steps = 3};
  for (int64_t step = 3; step < 60; ++step) {
    const double progress = std::min(1.0, static_cast<double>(step - 3) / (50 - 3));
    optimizer.schedule = "cosine";
    EXPECT_NEAR(learning_rate(optimizer, step, 50), 0.2 + 0.9 * (1 + std::cos(std::numbers::pi * progress)), 1e-12);
    optimizer.schedule = "linear";
    EXPECT_NEAR(learning_rate(optimizer, step, 50), 2.0 - 1.8 * progress, 1e-12);
  }
}

TEST(LearningRateTest, ConstantStaysAfterWarmUp) {
  const Optimizer optimizer{.lr = 0.5, .warmup_steps = 2, .schedule = "constant"};
  EXPECT_EQ(learning_rate(optimizer, 9, 10), 0.5);
  EXPECT_EQ(learning_rate(optimizer, 1000, 10), 0.5);
}

TEST(LearningRateTest, WsdIsAtThePeakUntilItDecaysInItsShape) {
  const auto rate = [](WsdShape shape, int64_t step) {
    return learning_rate(
        {.lr = 1.0, .min_lr_ratio = 0.2, .warmup_steps = 5, .schedule = "wsd", .wsd = {.decay = 0.25, .shape = shape}},
        step, 40);
  };
  for (const auto& [shape, name, doc] : words_of(WsdShape{})) {
    EXPECT_EQ(rate(shape, 0), 0.2) << name;
    for (int64_t step = 4; step <= 30; ++step) EXPECT_EQ(rate(shape, step), 1.0) << name << " " << step;
    EXPECT_NEAR(rate(shape, 40), 0.2, 1e-15) << name;
    EXPECT_NEAR(rate(shape, 99), 0.2, 1e-15) << name;
  }
  for (int64_t step = 30; step < 40; ++step) {
    const double progress = static_cast<double>(step - 30) / 10;
    EXPECT_NEAR(rate(WsdShape::sqrt, step), 0.2 + 0.8 * (1 - std::sqrt(progress)), 1e-12);
    EXPECT_NEAR(rate(WsdShape::linear, step), 0.2 + 0.8 * (1 - progress), 1e-12);
    EXPECT_NEAR(rate(WsdShape::cosine, step), 0.2 + 0.4 * (1 + std::cos(std::numbers::pi * progress)), 1e-12);
  }
}

TEST(LearningRateTest, WsdMayDecayNeverOrAlways) {
  Optimizer optimizer{
      .lr = 1.0, .min_lr_ratio = 0.0, .schedule = "wsd", .wsd = {.decay = 0.0, .shape = WsdShape::linear}};
  EXPECT_EQ(learning_rate(optimizer, 9, 10), 1.0);
  optimizer.wsd.decay = 1.0;
  for (int64_t step = 0; step < 10; ++step)
    EXPECT_NEAR(learning_rate(optimizer, step, 10), 1.0 - 0.1 * static_cast<double>(step), 1e-12);
}

}  // namespace
}  // namespace megacpp::optim
