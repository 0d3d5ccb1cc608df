// SPDX-License-Identifier: Apache-2.0
// What `megacpp run` refuses; what it does is in launch/restarts_test.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/command_line.h"
#include "tests/support/environment.h"

namespace megacpp::cli {
namespace {

void expect_refused(const std::vector<std::string>& words, const std::string& part) {
  const auto refused = testing_support::run_command(words);
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("E1007"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
}

TEST(RunCommandTest, LinesThatAreNoTrainingAreRefused) {
  expect_refused({"run", "--", "plan", "a.yaml"}, "train, with its recipe and flags, behind --");
  expect_refused({"run", "--restarts", "2", "--", "train", "a.yaml", "--set", "train.steps=2"}, "no --run-dir");
  expect_refused({"run", "--restarts", "many", "--", "train", "a.yaml"}, "--restarts");
}

TEST(RunCommandTest, ItIsStartedOnceAndNotByALauncher) {
  const testing_support::Variable process("PMI_RANK", "1"), processes("PMI_SIZE", "2");
  expect_refused({"run", "--", "train", "a.yaml", "--run-dir", "a"}, "started by mpiexec of MPICH");
}

TEST(RunCommandTest, ALauncherThatIsNotThereIsNamed) {
  expect_refused({"run", "--launcher", "no-such-launcher-of-megacpp -n 2", "--", "train", "a.yaml", "--run-dir", "a"},
                 "no-such-launcher-of-megacpp");
}

TEST(RunCommandTest, HostsThatAreNoneAreRefused) {
  expect_refused(
      {"run", "--hosts", "a:0", "--launcher", "mpirun -n {processes}", "--", "train", "a.yaml", "--run-dir", "a"},
      "--hosts");
}

TEST(RunCommandTest, AHostWhoseProbeFailsIsNotStartedOn) {
  const std::string recipe = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  const auto ended = testing_support::run_command({"run", "--hosts", "a:1", "--probe", "false {host}", "--launcher",
                                                   "mpirun -n {processes}", "--", "train", recipe, "--run-dir", "a"});
  EXPECT_EQ(ended.status, 1) << ended.err;
  EXPECT_NE(ended.err.find("none of a:1 answers"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace megacpp::cli
