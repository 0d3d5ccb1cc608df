// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/repeat.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace megacpp::base {
namespace {

Repeat repeat_of(std::string_view letters) {
  const std::vector<size_t> kinds(letters.begin(), letters.end());
  return best_repeat(kinds);
}

void expect(std::string_view letters, size_t first, size_t period, size_t count) {
  const Repeat found = repeat_of(letters);
  EXPECT_EQ(found.first, first) << letters;
  EXPECT_EQ(found.period, period) << letters;
  EXPECT_EQ(found.count, count) << letters;
}

TEST(RepeatTest, TakesThePeriodThatSavesMost) {
  expect("AEAEAE", 0, 2, 3);
  expect("AAAA", 0, 1, 4);
  expect("AEMEAEMEAEMRAEMEAEMEAEMRAEMEAE", 0, 12, 2);
  expect("XABABABY", 1, 2, 3);
}

TEST(RepeatTest, NothingRepeatsInDifferentEntries) {
  EXPECT_LT(repeat_of("ABCD").count, 2u);
  EXPECT_LT(repeat_of("").count, 2u);
  EXPECT_FALSE(repeat_of("ABCD").covers(0));
}

TEST(RepeatTest, CoversItsStretchAlone) {
  const Repeat found = repeat_of("XABABY");
  EXPECT_FALSE(found.covers(0));
  EXPECT_TRUE(found.covers(1));
  EXPECT_TRUE(found.covers(4));
  EXPECT_FALSE(found.covers(5));
}

}  // namespace
}  // namespace megacpp::base
