// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/offsets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/base/philox.h"

namespace megacpp::memory {
namespace {

constexpr int64_t kAlignment = 64;

std::vector<Interval> random_intervals(uint64_t seed, size_t count, uint32_t end) {
  const base::Philox random(seed, "intervals");
  uint64_t at = 0;
  std::vector<Interval> intervals;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t first = random.word(at++) % end;
    const uint32_t longest = random.word(at++) % 4 == 0 ? end : 5;
    const uint32_t last = std::min(end, first + random.word(at++) % longest);
    const uint32_t largest = random.word(at++) % 8 == 0 ? 500 : 20;
    const int64_t units = 1 + static_cast<int64_t>(random.word(at++) % largest);
    intervals.push_back({.bytes = units * kAlignment, .first = first, .last = last});
  }
  return intervals;
}

bool overlap_in_time(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

// Every pair, and every moment: slow and obvious.
void expect_legal(const std::vector<Interval>& intervals, const Placement& placement) {
  ASSERT_EQ(placement.offsets.size(), intervals.size());
  int64_t end = 0, most_alive = 0;
  for (size_t a = 0; a < intervals.size(); ++a) {
    const int64_t begin_a = placement.offsets[a], end_a = begin_a + intervals[a].bytes;
    ASSERT_GE(begin_a, 0);
    ASSERT_EQ(begin_a % kAlignment, 0);
    end = std::max(end, end_a);
    for (size_t b = 0; b < a; ++b) {
      if (!overlap_in_time(intervals[a], intervals[b])) continue;
      const int64_t begin_b = placement.offsets[b], end_b = begin_b + intervals[b].bytes;
      ASSERT_TRUE(end_a <= begin_b || end_b <= begin_a) << "buffers " << a << " and " << b << " overlap";
    }
    int64_t alive = 0;
    for (const Interval& other : intervals)
      if (other.first <= intervals[a].first && intervals[a].first <= other.last) alive += other.bytes;
    most_alive = std::max(most_alive, alive);
  }
  EXPECT_EQ(placement.bytes, end);
  EXPECT_EQ(placement.lower_bound, most_alive);
  EXPECT_GE(placement.bytes, placement.lower_bound);
}

TEST(OffsetsTest, NoTwoBuffersThatLiveAtOnceOverlap) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<Interval> intervals =
        random_intervals(seed, 1 + seed % 120, 5 + static_cast<uint32_t>(seed) % 60);
    expect_legal(intervals, place(intervals));
  }
}

TEST(OffsetsTest, SameIntervalsGiveSameOffsets) {
  const std::vector<Interval> intervals = random_intervals(7, 300, 100);
  const Placement first = place(intervals), again = place(intervals);
  EXPECT_EQ(first.offsets, again.offsets);
  EXPECT_EQ(first.bytes, again.bytes);
}

TEST(OffsetsTest, StaysNearTheLowerBoundOnRandomIntervals) {
  double worst = 1.0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Placement placement = place(random_intervals(seed, 200, 100));
    worst = std::max(worst, static_cast<double>(placement.bytes) / static_cast<double>(placement.lower_bound));
  }
  EXPECT_LT(worst, 1.5);
}

TEST(OffsetsTest, ForwardAndBackwardOfAChainNeedNoMoreThanIsAlive) {
  // Activation i is made at i and read at 2n - i; a temporary lives one step each way.
  constexpr uint32_t kBlocks = 50;
  std::vector<Interval> intervals;
  for (uint32_t i = 0; i < kBlocks; ++i) intervals.push_back({1024, i, 2 * kBlocks - i});
  for (uint32_t t = 0; t < 2 * kBlocks; ++t) intervals.push_back({4096, t, t + 1});
  const Placement placement = place(intervals);
  EXPECT_EQ(placement.bytes, placement.lower_bound);
}

TEST(OffsetsTest, WhatIsAliveAtOnceIsCounted) {
  const Busiest most = busiest({{64, 0, 1}, {128, 1, 2}, {256, 2, 3}});
  EXPECT_EQ(most.bytes, 128 + 256);
  EXPECT_EQ(most.time, 2u);
  EXPECT_EQ(busiest({}).bytes, 0);
}

TEST(OffsetsTest, NothingNeedsNoBytes) {
  const Placement placement = place({});
  EXPECT_EQ(placement.bytes, 0);
  EXPECT_EQ(placement.lower_bound, 0);
}

}  // namespace
}  // namespace megacpp::memory
