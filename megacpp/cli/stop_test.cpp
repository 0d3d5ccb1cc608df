// SPDX-License-Identifier: Apache-2.0
// Training that is stopped from outside: by the signals of terminals and schedulers, and killed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/stop_signals.h"
#include "tests/support/child_command.h"
#include "tests/support/child_process.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using std::chrono::milliseconds;
using testing_support::Ending;
using testing_support::has;

class StopTest : public testing::Test {
 protected:
  /// Signals that are sent one behind the other, when stderr has said `mark`; without one, when main() has begun.
  struct Signals {
    std::vector<int> signals;
    milliseconds pause{0};  // between them
    double busy = 0;        // seconds of the processor that it has had since the mark
  };

  /// Trains for ever.
  Ending stopped(std::vector<std::string> settings, const std::string& mark, const Signals& sent) {
    return stopped_command(train_words(std::move(settings), {"--json"}), mark, sent);
  }

  static std::vector<std::string> train_words(std::vector<std::string> settings,
                                              const std::vector<std::string>& flags) {
    settings.insert(settings.begin(), {"train.steps=100000", "train.log_every=1", "train.batch=2", "train.sequence=16",
                                       "model.depth=2", "train.threads=1"});
    return testing_support::on_recipe("train", "nam52-tiny.yaml", settings, flags);
  }

  /// The same of any command.
  Ending stopped_command(const std::vector<std::string>& words, const std::string& mark, const Signals& sent) {
    const std::string err = (folder_ / "err").string();
    base::write_file_atomically(err, "");
    const auto send = [&](pid_t pid) {
      // The last that main() takes over; before, a signal ends any process.
      const auto is_ready = [&] {
        return mark.empty() ? testing_support::handles_signal(pid, SIGUSR1) : has(base::read_file(err), mark);
      };
      for (int i = 0; i < 30'000 && !is_ready(); ++i) std::this_thread::sleep_for(milliseconds(2));
      const double at_mark = testing_support::processor_seconds(pid);
      for (int i = 0; i < 30'000 && testing_support::processor_seconds(pid) < at_mark + sent.busy; ++i)
        std::this_thread::sleep_for(milliseconds(2));
      sent_ = std::chrono::steady_clock::now();
      for (size_t i = 0; i < sent.signals.size(); ++i) {
        if (i > 0) std::this_thread::sleep_for(sent.pause);
        ::kill(pid, sent.signals[i]);
      }
    };
    const bool is_killed = std::ranges::count(sent.signals, SIGKILL) > 0;
    Ending ending =
        testing_support::run_child({.words = words, .err = err, .once_started = send, .may_be_killed = is_killed});
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - sent_).count();
    return ending;
  }

  const testing_support::TemporaryFolder folder_;
  const testing_support::Variable catalog_{"MEGACPP_CATALOG", (folder_ / "catalog.sqlite").string()};
  std::chrono::steady_clock::time_point sent_;
  double seconds_ = 0;  // from the signals to the end
};

TEST_F(StopTest, InterruptTerminateAndHangUpStopTrainingWithItsSummary) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const Ending ending = stopped({}, "step     2/100000", {.signals = {signal}});
    EXPECT_EQ(ending.status, base::kInterruptedStatus) << signal << "\n" << ending.err;
    EXPECT_TRUE(has(ending.err, "stopped after ")) << ending.err;
    EXPECT_GE(Json::parse(ending.out)["losses"].size(), 2u) << ending.out;
  }
}

TEST_F(StopTest, BeforeStepZeroACommandStopsAtOnce) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const Ending ending = stopped({"model.depth=400"}, "", {.signals = {signal}});
    EXPECT_EQ(ending.status, base::kInterruptedStatus) << signal << "\n" << ending.err;
    EXPECT_FALSE(has(ending.err, "step ")) << ending.err;
    EXPECT_LT(seconds_, 10);
  }
}

// Step 1 has 1000 micro-steps; it does not end.
TEST_F(StopTest, AmongManyMicroStepsTheFirstSignalStopsAfterOneOfThem) {
  const Ending ending = stopped({"train.micro_steps=1000"}, "step     1/100000", {.signals = {SIGINT}});
  EXPECT_EQ(ending.status, base::kInterruptedStatus);
  EXPECT_TRUE(has(ending.err, "stopped after 1 step;")) << ending.err;
  EXPECT_EQ(Json::parse(ending.out)["losses"].size(), 1u) << ending.out;
  EXPECT_LT(seconds_, 10);
}

// As timeout(1) sends it: to the process, and at once again to its whole group.
TEST_F(StopTest, TwoSignalsAtOnceAreOne) {
  const std::string run = (folder_ / "run").string();
  const std::vector<std::string> words = train_words({"checkpoint.every=0"}, {"--run-dir", run});
  const Ending ending = stopped_command(words, "step     2/100000", {.signals = {SIGTERM, SIGTERM, SIGHUP}});
  EXPECT_EQ(ending.status, base::kInterruptedStatus) << ending.err;
  EXPECT_TRUE(has(ending.err, "go on with: megacpp train --resume " + run)) << ending.err;
  const auto shown = testing_support::run_command({"runs", "show", run, "--json"});
  const Json json = Json::parse(shown.out);
  EXPECT_FALSE(json["latest"].is_null()) << shown.out;
  EXPECT_EQ(json["receipt"]["ending"], "interrupted") << shown.out;
}

// Step 0 takes many seconds, all in one micro-step.
TEST_F(StopTest, ASecondSignalAfterASecondStopsAtOnce) {
  const Ending ending =
      stopped({"train.batch=64", "train.sequence=2048"}, "start      ",
              {.signals = {SIGINT, SIGTERM}, .pause = base::kOneRequest + milliseconds(100), .busy = 0.3});
  EXPECT_EQ(ending.status, base::kInterruptedStatus);
  EXPECT_FALSE(has(ending.err, "stopped after")) << ending.err;
  EXPECT_EQ(ending.out, "");
}

TEST_F(StopTest, ASupervisorSaysThatItStopsAndWhatThatCost) {
  std::vector<std::string> words = {"run", "--restarts", "0", "--"};
  const std::vector<std::string> train = train_words({"checkpoint.every=0"}, {"--run-dir", (folder_ / "run").string()});
  words.insert(words.end(), train.begin(), train.end());
  const Ending ending = stopped_command(words, "step     2/100000", {.signals = {SIGTERM}});
  EXPECT_EQ(ending.status, base::kInterruptedStatus) << ending.err;
  EXPECT_TRUE(has(ending.err, "stopping   the training ends with its step")) << ending.err;
  EXPECT_TRUE(has(ending.err, "stopped after ")) << "the training's own: " << ending.err;
  EXPECT_TRUE(has(ending.err, "stopped    saved after step ")) << ending.err;
  EXPECT_TRUE(has(ending.err, "; nothing is lost")) << ending.err;
}

TEST_F(StopTest, SettingsThatPassedStepZeroAreRememberedWhenTheLaunchIsKilled) {
  const std::vector<std::string> settings = {"hardware.fail_allocation=[chip 0 step 0]"};
  const Ending killed = stopped(settings, "step     2/100000", {.signals = {SIGKILL}});
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_TRUE(has(killed.err, "all chips go down together")) << killed.err;
  const Ending next = stopped(settings, "step     1/100000", {.signals = {SIGTERM}});
  EXPECT_TRUE(has(next.err, "starting there")) << next.err;
  EXPECT_FALSE(has(next.err, "all chips go down together")) << next.err;
}

}  // namespace
}  // namespace megacpp::cli
