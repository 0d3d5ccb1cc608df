// SPDX-License-Identifier: Apache-2.0
// A run that is killed at random instants, over and over, and goes on each time: what it ends with is what it would
// have ended with.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/file.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/checkpoint/store.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"

namespace megacpp {
namespace {

using testing_support::Ending;
using testing_support::run_child;

constexpr int kKills = 50;
constexpr int64_t kSteps = 30;

std::vector<std::string> start_words(const std::filesystem::path& run) {
  return testing_support::on_recipe(
      "train", "nam52-tiny.yaml",
      {"model.depth=2", "train.batch=1", "train.sequence=16", "train.threads=1",
       "train.steps=" + std::to_string(kSteps), "checkpoint.every=1", "checkpoint.keep_every=7",
       "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs/errors.md]"},
      {"--no-catalog", "--run-dir", run.string()});
}

std::map<std::string, std::string> last_checkpoint(const std::filesystem::path& run) {
  std::map<std::string, std::string> files;
  const std::filesystem::path folder = checkpoint::Store(run / "checkpoints").path_of(kSteps);
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = base::read_file(entry.path());
  return files;
}

class KilledRunTest : public testing::Test {
 protected:
  /// Begins the run or goes on with it; killed after `lifetime`, where it has not ended before.
  Ending run_for(std::optional<std::chrono::duration<double>> lifetime) const {
    const bool is_begun = checkpoint::Store(run_ / "checkpoints").latest().has_value();
    if (!is_begun) std::filesystem::remove_all(run_);
    const std::vector<std::string> resume = {"train", "--resume", run_.string(), "--no-catalog"};
    const auto kill_later = [&](pid_t pid) {
      if (!lifetime) return;
      std::this_thread::sleep_for(*lifetime);
      ::kill(pid, SIGKILL);
    };
    return run_child({.words = is_begun ? resume : start_words(run_),
                      .once_started = kill_later,
                      .may_be_killed = lifetime.has_value()});
  }
  /// Every checkpoint that goes by its name is whole.
  void expect_sound() const {
    const checkpoint::Store store(run_ / "checkpoints");
    for (const int64_t step : store.steps()) EXPECT_TRUE(checkpoint::verify(store.path_of(step)).empty()) << step;
  }

  const testing_support::TemporaryFolder folder_;
  std::filesystem::path run_ = folder_ / "killed";
};

TEST_F(KilledRunTest, AKilledRunEndsWithTheSameWeights) {
  using std::chrono::steady_clock;
  auto begin = steady_clock::now();
  const Ending whole = run_child({.words = start_words(folder_ / "whole")});
  ASSERT_EQ(whole.status, 0) << whole.err;
  const auto wanted = last_checkpoint(folder_ / "whole");
  const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  std::mt19937 random(20);  // NOLINT: the same instants in every run
  std::uniform_real_distribution<double> instant(0, 0.7 * seconds);
  int kills = 0, ended = 0;
  while (kills < kKills) {
    const Ending ending = run_for(std::chrono::duration<double>(instant(random)));
    if (ending.signal == SIGKILL) {
      ++kills;
      if (kills % 10 == 0) expect_sound();
      continue;
    }
    ASSERT_EQ(ending.status, 0) << ending.err;
    EXPECT_TRUE(last_checkpoint(run_) == wanted);  // it ended before it was killed: once more from the beginning
    std::filesystem::remove_all(run_);
    ++ended;
  }
  const Ending last = run_for({});
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_TRUE(last_checkpoint(run_) == wanted);
  expect_sound();
  std::cout << kills << " kills, " << ended + 1 << " runs to their end, each of " << seconds << " s\n";
}

}  // namespace
}  // namespace megacpp
