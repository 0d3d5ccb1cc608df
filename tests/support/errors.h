// SPDX-License-Identifier: Apache-2.0
// The error that a piece of code raises, for tests that look at its code and its words.
#pragma once

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"

namespace megacpp::testing_support {

/// A test failure, and an internal error that matches nothing, where `body` raises none.
template <typename Body>
base::Error error_of(const Body& body) {
  try {
    body();
  } catch (const base::Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was raised";
  return {base::Code::E9001, {}};
}

/// The words of an error that has to have this code.
template <typename Body>
base::Problem problem_of(base::Code code, const Body& body) {
  const base::Error error = error_of(body);
  EXPECT_EQ(error.code(), code) << error.what();
  return error.problem();
}

}  // namespace megacpp::testing_support
