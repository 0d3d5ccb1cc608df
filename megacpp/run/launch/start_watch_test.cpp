// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/start_watch.h"

#include <gtest/gtest.h>

#include "megacpp/run/launch/run_directory.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::launch {
namespace {

TEST(StartWatchTest, ALauncherIsOverdueOnceTheTrainingHasEnded) {
  const testing_support::TemporaryFolder folder;
  StartWatch watch(folder / "run", std::chrono::milliseconds(0));
  EXPECT_FALSE(watch.is_overdue(base::Children::living)) << "it has not begun";
  std::optional<RunDirectory> training(RunDirectory::create(folder / "run", "a"));
  EXPECT_FALSE(watch.is_overdue(base::Children::living));
  training.reset();
  EXPECT_TRUE(watch.is_overdue(base::Children::living));
  EXPECT_TRUE(watch.was_overdue());
}

TEST(StartWatchTest, ALauncherHasTimeToEnd) {
  const testing_support::TemporaryFolder folder;
  StartWatch watch(folder / "run", std::chrono::minutes(1));
  std::optional<RunDirectory> training(RunDirectory::create(folder / "run", "a"));
  EXPECT_FALSE(watch.is_overdue(base::Children::living));
  training.reset();
  EXPECT_FALSE(watch.is_overdue(base::Children::living));
}

// As mpirun does where a process is killed at once.
TEST(StartWatchTest, ALauncherThatHangsBehindItsProcessesIsOverdue) {
  const testing_support::TemporaryFolder folder;
  StartWatch watch(folder / "run", std::chrono::milliseconds(0));
  EXPECT_FALSE(watch.is_overdue(base::Children::none)) << "they may be on other hosts";
  EXPECT_TRUE(watch.is_overdue(base::Children::ended));
  const RunDirectory training = RunDirectory::create(folder / "run", "a");
  EXPECT_FALSE(watch.is_overdue(base::Children::ended)) << "a process elsewhere trains";
}

}  // namespace
}  // namespace megacpp::launch
