// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>

namespace megacpp::data {
namespace {

using std::chrono::milliseconds;

ReadAheadOptions options(int64_t steps, int64_t micro_steps) {
  return {.end_step = steps, .micro_steps = micro_steps, .like = {.ids = std::vector<int32_t>(1)}};
}

void number(int64_t step, int64_t micro_step, MicroBatch& micro) {
  micro.ids[0] = static_cast<int32_t>(10 * step + micro_step);
}

TEST(ReadAheadTest, MicroBatchesComeInOrder) {
  ReadAhead ahead(number, options(20, 3));
  for (int32_t step = 0; step < 20; ++step)
    for (int32_t micro = 0; micro < 3; ++micro) EXPECT_EQ(ahead.next().ids[0], 10 * step + micro);
}

TEST(ReadAheadTest, ARunThatGoesOnBeginsAtItsStep) {
  ReadAheadOptions from = options(9, 2);
  from.first_step = 7;
  ReadAhead ahead(number, from);
  EXPECT_EQ(ahead.next().ids[0], 70);
}

TEST(ReadAheadTest, AFastSourceNeverStallsAStep) {
  ReadAhead ahead(number, options(30, 1));
  for (int step = 0; step < 30; ++step) {
    ahead.next();
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(ahead.take_stalls().count, 0);
}

TEST(ReadAheadTest, ASlowSourceIsCounted) {
  ReadAhead ahead(
      [](int64_t step, int64_t micro, MicroBatch& batch) {
        std::this_thread::sleep_for(milliseconds(10));
        number(step, micro, batch);
      },
      options(6, 1));
  for (int step = 0; step < 6; ++step) ahead.next();
  const Stalls stalls = ahead.take_stalls();
  EXPECT_EQ(stalls.count, 5);  // the first of a run is waited for in any case
  EXPECT_GT(stalls.seconds, 0.03);
  EXPECT_EQ(ahead.take_stalls().count, 0);
}

TEST(ReadAheadTest, TheRingIsBounded) {
  std::atomic<int> filled = 0;
  ReadAhead ahead([&](int64_t, int64_t, MicroBatch&) { ++filled; }, options(1000, 2));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(filled.load(), 5);  // two steps, and the slot of the reader
}

// Filling goes on until it may not: the reader finds its micro-batch as it was when the thread has stopped before it.
TEST(ReadAheadTest, WhatTheReaderHoldsIsNotFilledAgain) {
  constexpr int kSteps = 40;
  std::atomic<int32_t> filled = 0;
  ReadAhead ahead(
      [&](int64_t step, int64_t micro, MicroBatch& batch) {
        number(step, micro, batch);
        filled = static_cast<int32_t>(step) + 1;
      },
      options(kSteps, 1));
  for (int32_t step = 0; step < kSteps; ++step) {
    const MicroBatch& held = ahead.next();
    while (filled < std::min(step + 3, kSteps)) std::this_thread::yield();  // two steps ahead of the one that is held
    if (step % 10 == 0) std::this_thread::sleep_for(milliseconds(20));      // and on, were it allowed
    EXPECT_EQ(held.ids[0], 10 * step);
  }
}

TEST(ReadAheadTest, WhatFillingThrowsIsThrownInItsTurn) {
  ReadAhead ahead(
      [](int64_t step, int64_t micro, MicroBatch& batch) {
        if (step == 2) throw std::runtime_error("disk");
        number(step, micro, batch);
      },
      options(5, 1));
  EXPECT_EQ(ahead.next().ids[0], 0);
  EXPECT_EQ(ahead.next().ids[0], 10);
  EXPECT_THROW(ahead.next(), std::runtime_error);
}

}  // namespace
}  // namespace megacpp::data
