// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "megacpp/optim/optimizer.h"

namespace megacpp::optim {
namespace {

TEST(LearningRateTest, WarmsUpLinearlyToThePeak) {
  const Optimizer optimizer{.lr = 1.0, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 0, 100), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 3, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 4, 100), 1.0);
}

TEST(LearningRateTest, CosineAndLinearEndAtTheFloor) {
  for (const char* schedule : {"cosine", "linear"}) {
    const Optimizer optimizer{.lr = 2.0, .min_lr_ratio = 0.1, .warmup_steps = 0, .schedule = schedule};
    EXPECT_DOUBLE_EQ(learning_rate(optimizer, 0, 10), 2.0) << schedule;
    EXPECT_NEAR(learning_rate(optimizer, 5, 10), 1.1, 1e-12) << schedule;
    EXPECT_NEAR(learning_rate(optimizer, 10, 10), 0.2, 1e-12) << schedule;
    EXPECT_NEAR(learning_rate(optimizer, 50, 10), 0.2, 1e-12) << schedule;
  }
}

TEST(LearningRateTest, ConstantStaysAfterWarmUp) {
  const Optimizer optimizer{.lr = 0.5, .warmup_steps = 2, .schedule = "constant"};
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 1000, 10), 0.5);
}

}  // namespace
}  // namespace megacpp::optim
