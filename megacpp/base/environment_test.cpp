// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/environment.h"

#include <gtest/gtest.h>

#include "tests/support/environment.h"

namespace megacpp::base {
namespace {

TEST(EnvironmentTest, WhatIsNotSetIsEmpty) {
  EXPECT_EQ(environment_variable("MEGACPP_NEVER_SET"), "");
  const testing_support::Variable set("MEGACPP_NEVER_SET", "a b");
  EXPECT_EQ(environment_variable("MEGACPP_NEVER_SET"), "a b");
  const testing_support::Variable empty("MEGACPP_NEVER_SET", "");
  EXPECT_EQ(environment_variable("MEGACPP_NEVER_SET"), "");
}

}  // namespace
}  // namespace megacpp::base
