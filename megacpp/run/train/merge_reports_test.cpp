// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/merge_reports.h"

#include <gtest/gtest.h>

namespace megacpp::train {
namespace {

TEST(MergeReportsTest, MetricsComeFromTheProcessThatHasThem) {
  StepReport first{.step = 3, .grad_norm = 2.0, .seconds = 1.5, .peak_bytes = 100};
  const StepReport last{.step = 3,
                        .loss = 4.5,
                        .cross_entropy = 4.0,
                        .grad_norm = 2.0,
                        .seconds = 1.75,
                        .experts = {{.block = "block01", .share = {1.0}, .dropped = {0.0}}},
                        .data_stalls = {.count = 2, .seconds = 0.5},
                        .host_syncs = 1,
                        .peak_bytes = 300};
  merge_report(first, last);
  EXPECT_EQ(first.loss, 4.5);
  EXPECT_EQ(first.cross_entropy, 4.0);
  EXPECT_EQ(first.grad_norm, 2.0);
  EXPECT_FALSE(first.balance.has_value()) << "nobody has it";
  EXPECT_EQ(first.experts.size(), 1u);
  EXPECT_EQ(first.seconds, 1.5) << "by its own clock";
  EXPECT_EQ(first.data_stalls.count, 2);
  EXPECT_EQ(first.host_syncs, 1);
  EXPECT_EQ(first.peak_bytes, 300);
}

TEST(MergeReportsTest, TheWorstChipsOfAllAreNamed) {
  StepReport first{.step = 3, .peak_bytes = 100, .peak_chip = 0};
  merge_report(first, {.step = 3, .peak_bytes = 300, .peak_chip = 5, .busy_seconds = 0.5, .busy_chip = 4});
  merge_report(first, {.step = 3, .peak_bytes = 200, .peak_chip = 7, .busy_seconds = 0.75, .busy_chip = 6});
  merge_report(first, {.step = 3});
  EXPECT_EQ(first.peak_chip, 5);
  EXPECT_EQ(first.busy_seconds, 0.75);
  EXPECT_EQ(first.busy_chip, 6);
}

TEST(MergeReportsTest, WhatIsHereStays) {
  StepReport first{.step = 3, .loss = 4.5, .data_stalls = {.count = 1, .seconds = 0.75}, .peak_bytes = 100};
  merge_report(first, {.step = 3, .loss = 9.0, .data_stalls = {.count = 7, .seconds = 0.5}});
  EXPECT_EQ(first.loss, 4.5);
  EXPECT_EQ(first.data_stalls.count, 1);
  EXPECT_EQ(first.peak_bytes, 100);
}

}  // namespace
}  // namespace megacpp::train
