// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/environment.h"

#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "tests/support/errors.h"

namespace megacpp::base {
namespace {

TEST(EnvironmentTest, WhatIsNotSetIsEmpty) {
  const testing_support::Variable set("NVIDIA_TF32_OVERRIDE", "a b");
  EXPECT_EQ(environment_variable("NVIDIA_TF32_OVERRIDE"), "a b");
  const testing_support::Variable empty("NVIDIA_TF32_OVERRIDE", "");
  EXPECT_EQ(environment_variable("NVIDIA_TF32_OVERRIDE"), "");
  ::unsetenv("NVIDIA_TF32_OVERRIDE");
  EXPECT_EQ(environment_variable("NVIDIA_TF32_OVERRIDE"), "");
}

TEST(EnvironmentTest, AVariableThatNobodyHasListedIsNotRead) {
  const Error error = testing_support::error_of([] { environment_variable("MEGACPP_NEVER_LISTED"); });
  EXPECT_EQ(error.code(), Code::E9001);
  EXPECT_NE(error.problem().got.find("MEGACPP_NEVER_LISTED"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace megacpp::base
