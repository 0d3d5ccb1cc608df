// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/pace.h"

#include <gtest/gtest.h>

namespace megacpp::train {
namespace {

TEST(PaceTest, TheFirstStepCountsOnlyAlone) {
  const StepReport cold{.steps = 1, .seconds = 9, .tokens = 90}, warm{.steps = 1, .seconds = 2, .tokens = 90};
  EXPECT_DOUBLE_EQ(pace_of({cold, warm, warm}).tokens_per_second().value(), 45);
  EXPECT_DOUBLE_EQ(pace_of({cold, warm, warm}).step_seconds().value(), 2);
  EXPECT_DOUBLE_EQ(pace_of({cold}).tokens_per_second().value(), 10);
  EXPECT_FALSE(pace_of({cold}).step_seconds());
  const StepReport ten_steps{.steps = 10, .seconds = 20, .tokens = 900};
  EXPECT_DOUBLE_EQ(pace_of({cold, ten_steps}).step_seconds().value(), 2) << "logged every tenth step";
  EXPECT_EQ(pace_of({}).tokens_per_second(), std::nullopt) << "absent, not 0";
}

}  // namespace
}  // namespace megacpp::train
