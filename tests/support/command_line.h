// SPDX-License-Identifier: Apache-2.0
// A command as the user would type it, run in this process; how it ends is judged by the error contract.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "megacpp/cli/command.h"
#include "tests/support/expect_contract.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {

struct CommandResult {
  int status;
  std::string out;
  std::string err;
};

/// The command finds a catalog of this process, unless the test has named another: never the user's own. Runs are left
/// in a folder of this process too.
inline CommandResult run_command(const std::vector<std::string>& words) {
  static const TemporaryFolder folder;
  ::setenv("MEGACPP_CATALOG", (folder / "catalog.sqlite").c_str(), 0);
  ::setenv("MEGACPP_RUNS", (folder / "runs").c_str(), 0);
  std::vector<const char*> argv = {"megacpp"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = cli::run(static_cast<int>(argv.size()), argv.data());
  CommandResult result{
      .status = status, .out = testing::internal::GetCapturedStdout(), .err = testing::internal::GetCapturedStderr()};
  expect_contract(words, {.status = status, .json = wants_json(words), .out = result.out, .err = result.err});
  return result;
}

/// A recipe of the source tree with keys set: {"train.steps=3"}.
inline std::vector<std::string> on_recipe(const std::string& command, const std::string& recipe,
                                          const std::vector<std::string>& settings,
                                          const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {command, std::string(MEGACPP_SOURCE_DIR) + "/recipes/" + recipe};
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace megacpp::testing_support
