// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/source.h"

#include <gtest/gtest.h>

#include <set>

namespace megacpp::data {
namespace {

TEST(SourceTest, EveryEpochIsAPermutation) {
  for (const int64_t size : {1, 2, 3, 16, 17, 1000})
    for (const int64_t epoch : {0, 1, 7}) {
      std::set<int64_t> places;
      for (int64_t i = 0; i < size; ++i) places.insert(shuffled(5, epoch, i, size));
      EXPECT_EQ(static_cast<int64_t>(places.size()), size);
      EXPECT_EQ(*places.begin(), 0);
      EXPECT_EQ(*places.rbegin(), size - 1);
    }
}

TEST(SourceTest, SeedsAndEpochsOrderDifferently) {
  const auto order = [](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < 100; ++i) places.push_back(shuffled(seed, epoch, i, 100));
    return places;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
}

TEST(SourceTest, ShufflingMixesFarApart) {
  int64_t neighbours = 0;
  for (int64_t i = 0; i + 1 < 10000; ++i)
    neighbours += std::abs(shuffled(3, 0, i, 10000) - shuffled(3, 0, i + 1, 10000)) < 10 ? 1 : 0;
  EXPECT_LT(neighbours, 60);  // 20 are expected of a random order
}

TEST(SourceTest, TheHeldOutPartIsTheRestOfTheTrainingPart) {
  EXPECT_EQ(parts_of(100, 0).training, 100);
  EXPECT_EQ(parts_of(100, 0.05).held_out, 5);
  EXPECT_EQ(parts_of(100, 0.05).training, 95);
}

}  // namespace
}  // namespace megacpp::data
