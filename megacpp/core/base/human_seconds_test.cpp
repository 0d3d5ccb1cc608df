// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/human_seconds.h"

#include <gtest/gtest.h>

namespace megacpp::base {
namespace {

TEST(HumanSecondsTest, TheUnitFollowsTheSize) {
  EXPECT_EQ(human_seconds(1.25), "1.25 s");
  EXPECT_EQ(human_seconds(35999), "35999.00 s");
  EXPECT_EQ(human_seconds(86400), "24.0 h");
  EXPECT_EQ(human_seconds(1e6), "11.6 days");
  EXPECT_EQ(human_seconds(0.0031), "3.10 ms");
  EXPECT_EQ(human_seconds(45e-6), "45.0 us");
  EXPECT_EQ(human_seconds(0), "0.0 us");
}

}  // namespace
}  // namespace megacpp::base
