// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/path.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

std::vector<std::string> tiny_sweep(const std::string& axis, const std::string& folder) {
  return testing_support::on_recipe("sweep", "nam56r-tiny.yaml",
                                    {"train.steps=3", "train.log_every=1", "train.sequence=32", "train.batch=2"},
                                    {"--axis", axis, "--repeats", "1", "--dir", folder, "--json"});
}

// Runs of three steps are too short to be compared: each is there with its rate, and none wins.
TEST(SweepCommandTest, EveryValueIsTrainedAndASecondCallRunsNothing) {
  const testing_support::TemporaryFolder folder;
  const std::string at = (folder / "sweep").string();
  const auto first = testing_support::run_child({.words = tiny_sweep("layout.tensor_parallel=1,3", at)});
  ASSERT_EQ(first.status, 0) << first.err;
  const Json values = Json::parse(first.out)["values"];
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0]["runs"].size(), 1U) << first.out;
  EXPECT_EQ(values[1]["errors"].size(), 1U) << first.out;
  EXPECT_NE(values[1]["errors"][0].get<std::string>().find("E1402"), std::string::npos) << first.out;
  EXPECT_TRUE(base::exists(folder / "sweep" / "plot.svg"));
  const auto listed = testing_support::run_command({"runs", "list", folder.path().string(), "--json"});
  const Json list = Json::parse(listed.out);
  ASSERT_EQ(list["sweeps"].size(), 1U) << listed.out;
  EXPECT_EQ(list["sweeps"][0]["sweep"], at);
  EXPECT_EQ(list["sweeps"][0]["axis"], "layout.tensor_parallel=1,3");
  EXPECT_EQ(list["sweeps"][0]["done"], 2);
  EXPECT_EQ(list["sweeps"][0]["left"], 0);
  ASSERT_EQ(list["runs"].size(), 1U) << listed.out;
  EXPECT_EQ(list["runs"][0]["run"], at + "/runs/1-1-1");
  const std::string rows = testing_support::run_command({"runs", "list", folder.path().string()}).out;
  EXPECT_LT(rows.find("sweep of layout.tensor_parallel=1,3, 2 runs\n" + at + "/runs/1-1-1 "), rows.size()) << rows;
  const auto again = testing_support::run_child({.words = tiny_sweep("layout.tensor_parallel=1,3", at)});
  EXPECT_EQ(again.err.find("layout.tensor_parallel=1, repeat 1"), std::string::npos) << again.err;
}

// A script that takes the best value has none.
TEST(SweepCommandTest, ASweepOfWhichNothingSucceedsEndsAsItsRuns) {
  const testing_support::TemporaryFolder folder;
  const auto none =
      testing_support::run_child({.words = tiny_sweep("layout.tensor_parallel=3,5", (folder / "sweep").string())});
  EXPECT_EQ(none.status, 2) << none.err;
  EXPECT_NE(none.err.find("error E1402"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("2 runs, of which none succeeded"), std::string::npos) << none.err;
  EXPECT_EQ(Json::parse(none.out)["values"].size(), 2U) << "the table is there all the same";
}

TEST(SweepCommandTest, ItIsStartedOnceAndNotByALauncher) {
  const testing_support::TemporaryFolder folder;
  const testing_support::Variable process("PMI_RANK", "1"), processes("PMI_SIZE", "2");
  const auto refused = testing_support::run_command(tiny_sweep("train.batch=1,2", (folder / "sweep").string()));
  EXPECT_NE(refused.err.find("error E1007"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("started by mpiexec of MPICH"), std::string::npos) << refused.err;
  EXPECT_FALSE(base::exists(folder / "sweep"));
}

TEST(SweepCommandTest, MistakesAreNamedBeforeAnythingRuns) {
  const testing_support::TemporaryFolder folder;
  for (const char* axis : {"train.bach=1,2", "train.batch=1", "train.batch=1,many"}) {
    const auto result = testing_support::run_command(tiny_sweep(axis, (folder / "sweep").string()));
    EXPECT_EQ(result.status, 2) << axis;
    EXPECT_FALSE(base::exists(folder / "sweep")) << axis;
  }
}

}  // namespace
}  // namespace megacpp::cli
