// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/runs_folder.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/run/launch/run_directory.h"
#include "tests/support/environment.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::launch {
namespace {

using testing_support::has;
using testing_support::problem_of;

class RunsFolderTest : public testing::Test {
 protected:
  void make_run(const std::string& path) const {
    base::make_folder(folder_ / path);
    base::write_file_atomically(folder_ / path / "recipe.yaml", "name: a\n");
  }
  /// As a sweep leaves it: with the recipe that it was begun with.
  void make_sweep(const std::string& path) const {
    make_run(path);
    base::write_file_atomically(folder_ / path / kSweepFile, "{}");
  }
  /// Paths below the folder, one behind the other.
  std::string below(const std::vector<std::filesystem::path>& paths) const {
    std::string text;
    for (const std::filesystem::path& path : paths) text += path.lexically_relative(folder_.path()).string() + " ";
    return text;
  }

  const testing_support::TemporaryFolder folder_;
  const testing_support::Variable runs_{"MEGACPP_RUNS", folder_.path().string()};
};

TEST_F(RunsFolderTest, ASweepIsNoRunAndItsRunsAreFound) {
  make_run("a");
  make_sweep("b-sweep");
  make_run("b-sweep/runs/1-2-1");
  make_run("b-sweep/runs/2-4-1");
  make_sweep("c-begun");
  make_run("d");
  EXPECT_EQ(below(runs_in(folder_.path())), "a d b-sweep/runs/1-2-1 b-sweep/runs/2-4-1 ");
  EXPECT_EQ(below(sweeps_in(folder_.path())), "b-sweep c-begun ");
  EXPECT_FALSE(is_run(folder_ / "b-sweep"));
  EXPECT_EQ(below(runs_in(folder_ / "b-sweep")), "b-sweep/runs/1-2-1 b-sweep/runs/2-4-1 ");
  EXPECT_EQ(below(sweeps_in(folder_ / "b-sweep")), "b-sweep ");
  EXPECT_TRUE(runs_in(folder_ / "none").empty());
}

TEST_F(RunsFolderTest, LinksAreLeftOut) {
  make_run("a");
  make_sweep("b");
  make_run("b/elsewhere/1");
  std::filesystem::create_symlink("a", folder_ / "latest");
  std::filesystem::create_symlink("b", folder_ / "link");
  std::filesystem::create_symlink("elsewhere", folder_ / "b" / "runs");
  EXPECT_EQ(below(runs_in(folder_.path())), "a ");
  EXPECT_EQ(below(sweeps_in(folder_.path())), "b ");
}

TEST_F(RunsFolderTest, ASweepIsRefusedAsARun) {
  make_sweep("s");
  const base::Problem resumed = problem_of(base::Code::E1206, [&] { find_resume_point((folder_ / "s").string()); });
  EXPECT_TRUE(has(resumed.got, "a sweep, whose runs are in " + (folder_ / "s" / "runs").string())) << resumed.got;
  EXPECT_EQ(problem_of(base::Code::E1206, [&] { find_run((folder_ / "s").string()); }).got, resumed.got);
  EXPECT_EQ(problem_of(base::Code::E1206, [&] { RunDirectory::create(folder_ / "s", "a"); }).got, "a sweep");
}

TEST_F(RunsFolderTest, WithoutRunsTheLatestIsSaidToBeNowhere) {
  const base::Problem none = problem_of(base::Code::E1206, [] { path_named("latest"); });
  EXPECT_EQ(none.got, "no runs here");
  EXPECT_EQ(none.where, folder_.path().string());
  EXPECT_TRUE(has(none.next, "MEGACPP_RUNS")) << none.next;
  make_run("a");
  const base::Problem no_link = problem_of(base::Code::E1206, [] { path_named("latest"); });
  EXPECT_TRUE(has(no_link.got, "no run that was started last")) << no_link.got;
  std::filesystem::create_symlink("a", folder_ / "latest");
  EXPECT_EQ(path_named("latest"), folder_ / "latest");
  EXPECT_EQ(path_named("other"), "other");
}

}  // namespace
}  // namespace megacpp::launch
