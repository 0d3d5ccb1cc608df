// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::Ending;
using testing_support::has;
using testing_support::run_command;

TEST(ServeCommandTest, MistakesAreNamedBeforeAnythingListens) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"serve", "--port", "70000"}, "error E1007"},
      {{"serve", "--port", "x"}, "error E1007"},
      {{"serve", "--prt", "1"}, "did you mean '--port'?"},
      {{"serve", "--bind", "0.0.0.0"}, "without --token"},
      {{"serve", "--bind", "::"}, "without --token"},
      {{"serve", "--bind", "localhost"}, "a numeric address"},
      {{"serve", "--bind", ""}, "a numeric address"},
      {{"serve", "--token", "short"}, "5 characters"},
      {{"serve", "--token", ""}, "0 characters"},
      {{"serve", "--token", "sixteen letters and spaces"}, "letters, digits and -._~"},
      {{"serve", "--runs", "/no/such/folder"}, "error E1008"},
      {{"serve", "--runs", ""}, "error E1008"},
  };
  for (const auto& [words, said] : mistakes) {
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.status, 2) << said << "\n" << result.err;
    EXPECT_TRUE(has(result.err, said)) << said << "\n" << result.err;
  }
}

TEST(ServeCommandTest, ServesUntilItIsStopped) {
  const testing_support::TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  base::write_file_atomically(out, "");
  const auto stop = [&](pid_t pid) {
    for (int i = 0; i < 5'000 && !has(base::read_file(out), "\n"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(pid, SIGTERM);
  };
  const Ending ending = testing_support::run_child(
      {.words = {"serve", "--port", "0", "--runs", folder.path().string()}, .out = out, .once_started = stop});
  EXPECT_EQ(ending.status, base::kInterruptedStatus) << ending.err;
  EXPECT_TRUE(has(ending.out, "http://127.0.0.1:")) << ending.out;
  EXPECT_TRUE(has(ending.err, "no runs here yet; --runs or MEGACPP_RUNS names another folder")) << ending.err;
}

}  // namespace
}  // namespace megacpp::cli
