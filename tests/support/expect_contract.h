// SPDX-License-Identifier: Apache-2.0
// The error contract as a test's expectation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/error_contract.h"

namespace megacpp::testing_support {

/// Whether stdout has to be JSON.
inline bool wants_json(const std::vector<std::string>& words) {
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  return has("--json") && !has("--help") && !has("--version");
}

/// A test failure for each breach of the error contract.
inline void expect_contract(const std::vector<std::string>& words, const Ending& ending) {
  std::string line = "megacpp";
  for (const std::string& word : words) line += " " + word;
  for (const std::string& breach : breaches_of(ending))
    ADD_FAILURE() << line << "\nbreaks the error contract: " << breach << "\n" << ending.err;
}

}  // namespace megacpp::testing_support
