// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/counted.h"

#include <gtest/gtest.h>

namespace megacpp::base {
namespace {

TEST(CountedTest, OneIsSingularAndAllOthersArePlural) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(2, "step"), "2 steps");
  EXPECT_EQ(counted(-1, "step"), "-1 steps");
}

TEST(CountedTest, TheEndOfTheWordDecides) {
  EXPECT_EQ(counted(2, "launch"), "2 launches");
  EXPECT_EQ(counted(2, "process"), "2 processes");
  EXPECT_EQ(counted(2, "flush"), "2 flushes");
  EXPECT_EQ(counted(2, "box"), "2 boxes");
  EXPECT_EQ(counted(2, "entry"), "2 entries");
  EXPECT_EQ(counted(2, "day"), "2 days");
  EXPECT_EQ(counted(2, "logged step"), "2 logged steps");
}

}  // namespace
}  // namespace megacpp::base
