// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/range.h"

#include <gtest/gtest.h>

namespace megacpp::schema {
namespace {

TEST(RangeTest, ReadsAsWords) {
  EXPECT_EQ(describe(at_least_and_below(0, 1)), "at least 0 and below 1");
  EXPECT_EQ(describe(between(1, 1e9)), "at least 1 and at most 1000000000");
  EXPECT_EQ(describe(one_of("none", "selective", "full")), "none, selective or full");
  EXPECT_EQ(describe(one_of_or_integer(2, 64, "true", "false")), "true, false or an integer at least 2 and at most 64");
  EXPECT_EQ(describe(any()), "");
}

TEST(RangeTest, HoldsWhatItSays) {
  int64_t integer = 0;
  EXPECT_TRUE(contains(at_least(0), &integer));
  EXPECT_FALSE(contains(above(0), &integer));
  double infinite = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(contains(above(0), &infinite));
  EXPECT_TRUE(contains(above_or_infinite(0), &infinite));
  ByteSize size{512};
  EXPECT_TRUE(contains(between(512, 1024), &size));
  EXPECT_FALSE(contains(above(512), &size));
  size.bytes = 1025;
  EXPECT_FALSE(contains(between(512, 1024), &size));
  std::string word = "3";
  EXPECT_FALSE(contains(one_of("true"), &word));
  EXPECT_TRUE(contains(one_of_or_integer(2, 4, "true"), &word));
  word = "5";
  EXPECT_FALSE(contains(one_of_or_integer(2, 4, "true"), &word));
}

TEST(RangeTest, TheNearestBoundIsOneThatIsAllowed) {
  EXPECT_EQ(nearest_bound(between(-1, 3), 4), "3");
  EXPECT_EQ(nearest_bound(between(-1, 3), -7), "-1");
  EXPECT_EQ(nearest_bound(at_least_and_below(0, 1), 1), std::nullopt) << "1 itself is excluded";
  EXPECT_EQ(nearest_bound(above(0), 0), std::nullopt);
}

TEST(RangeTest, TheNearestChoiceMustBeMeant) {
  EXPECT_EQ(nearest_choice("selectiv", {"none", "selective", "full"}), "selective");
  EXPECT_EQ(nearest_choice("xyz", {"none", "selective", "full"}), std::nullopt);
}

}  // namespace
}  // namespace megacpp::schema
