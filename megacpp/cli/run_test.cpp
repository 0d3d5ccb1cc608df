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
  EXPECT_NE(ended.err.find("no answer from a (the probe ended with status 1)"), std::string::npos) << ended.err;
}

TEST(RunCommandTest, WordsThatCannotBeMeantAreRefused) {
  const std::vector<std::string> train = {"--", "train", "a.yaml", "--run-dir", "a"};
  const auto refused_with = [&](std::vector<std::string> flags, const std::string& part) {
    flags.insert(flags.begin(), "run");
    flags.insert(flags.end(), train.begin(), train.end());
    expect_refused(flags, part);
  };
  refused_with({"--launcher", "mpirun -n {processes}"}, "without --hosts");
  refused_with({"--launcher", "bash -c 'mpirun -n 2'"}, "no shell reads them");
  refused_with({"--probe", "ping {host}"}, "without --hosts");
  refused_with({"--hosts", "a:1", "--probe", "ping host", "--launcher", "mpirun -n {processes}"}, "--probe");
  refused_with({"--hosts", "a:1", "--probe", " ", "--launcher", "mpirun -n {processes}"}, "no words");
  refused_with({"--hosts", "a:1"}, "none, beside --hosts");
}

TEST(RunCommandTest, AProbeThatIsNotThereIsNamed) {
  const std::string recipe = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  expect_refused({"run", "--hosts", "a:1", "--probe", "no-such-probe-of-megacpp {host}", "--launcher",
                  "mpirun -n {processes}", "--", "train", recipe, "--run-dir", "a"},
                 "no-such-probe-of-megacpp");
}

}  // namespace
}  // namespace megacpp::cli
