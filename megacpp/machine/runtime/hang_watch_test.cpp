// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/hang_watch.h"

#include <gtest/gtest.h>

#include <atomic>

namespace megacpp::runtime {
namespace {

using std::chrono::milliseconds;

TEST(HangWatchTest, AStepThatDoesNotEndAfterTheRunHasFailedIsSeen) {
  std::atomic<bool> has_failed = false, is_seen = false;
  HangWatch watch({.has_failed = [&] { return has_failed.load(); },
                   .limit = milliseconds(20),
                   .on_hang =
                       [&] {
                         is_seen = true;
                         is_seen.notify_all();
                       }});
  const HangWatch::Step step(&watch);
  std::this_thread::sleep_for(milliseconds(40));
  EXPECT_FALSE(is_seen) << "a step may take its time";
  has_failed = true;
  is_seen.wait(false);
}

TEST(HangWatchTest, AStepMayHaveALimitThoughNothingHasFailed) {
  std::atomic<bool> is_seen = false;
  HangWatch watch({.has_failed = [] { return false; },
                   .limit = std::chrono::seconds(60),
                   .on_hang =
                       [&] {
                         is_seen = true;
                         is_seen.notify_all();
                       },
                   .step_limit = milliseconds(20)});
  for (int step = 0; step < 3; ++step) {
    const HangWatch::Step short_one(&watch);
  }
  std::this_thread::sleep_for(milliseconds(40));
  EXPECT_FALSE(is_seen) << "steps that have ended";
  const HangWatch::Step step(&watch);
  is_seen.wait(false);
}

TEST(HangWatchTest, StepsThatEndAreNot) {
  std::atomic<int> seen = 0;
  HangWatch watch({.has_failed = [] { return true; }, .limit = milliseconds(20), .on_hang = [&] { ++seen; }});
  std::this_thread::sleep_for(milliseconds(40));
  EXPECT_EQ(seen, 0) << "outside a step nobody is waited for";
  { const HangWatch::Step step(&watch); }
  std::this_thread::sleep_for(milliseconds(40));
  EXPECT_EQ(seen, 0);
}

TEST(HangWatchTest, TheLimitIsThatOfWaitsWithinReason) {
  EXPECT_EQ(hang_limit(milliseconds(50)), std::chrono::seconds(5));
  EXPECT_EQ(hang_limit(std::chrono::seconds(20)), std::chrono::seconds(20));
  EXPECT_EQ(hang_limit(std::chrono::hours(1)), std::chrono::seconds(60));
}

}  // namespace
}  // namespace megacpp::runtime
