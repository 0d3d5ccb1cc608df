// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/restarts.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/checkpoint/writer.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/train/step_log.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::launch {
namespace {

using Words = std::vector<std::string>;

class RestartsTest : public testing::Test {
 protected:
  std::string run() const { return (folder_ / "run").string(); }
  Words train_words() const { return {"train", "r.yaml", "--set", "train.steps=9", "--run-dir", run(), "--json"}; }

  /// As a training leaves it that logged so many steps and was killed.
  void leave_run(int64_t logged, int64_t saved) const {
    base::make_folder(folder_ / "run");
    base::write_file_atomically(recipe_file_of(run()), "name: a\n");
    std::string log;
    for (int64_t step = 0; step < logged; ++step)
      log += train::line_of({.step = step, .loss = 1.0, .steps = 1, .seconds = 0.5});
    base::write_file_atomically(folder_ / "run" / "log.jsonl", log);
    const float value = 1;
    const checkpoint::PieceBytes piece{.tensor = "w",
                                       .whole = {ir::DType::f32, {1}},
                                       .shard = 0,
                                       .box = {{0}, {1}},
                                       .bytes = std::as_bytes(std::span(&value, 1))};
    checkpoint::Manifest header;
    header.position.step = saved;
    if (saved > 0) checkpoint::write_checkpoint(checkpoints_of(run()), header, std::span(&piece, 1));
  }

  /// The words of every start: the first leaves what `first` leaves and ends with its status, the next ends well.
  std::vector<Words> starts_of(const SupervisedTraining& training, const RestartOptions& options,
                               const std::function<int()>& first) const {
    std::vector<Words> starts;
    run_with_restarts(
        training, options,
        [&](const Start& start) {
          starts.push_back(start.words);
          return starts.size() > 1 ? 0 : first();
        },
        log_);
    return starts;
  }

  const testing_support::TemporaryFolder folder_;
  std::vector<std::string> said_;
  Log log_ = [this](const Line& line) { said_.push_back(line.text); };
};

TEST_F(RestartsTest, AKilledRunGoesOnFromItsCheckpoint) {
  std::vector<Words> starts;
  const int status = run_with_restarts(
      supervised_training(train_words()), {.launcher = {"mpirun", "-n", "2"}, .program = "megacpp", .restarts = 3},
      [&](const Start& start) {
        starts.push_back(start.words);
        if (starts.size() > 1) return 0;
        leave_run(7, 4);
        return 128 + SIGKILL;
      },
      log_);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0], (Words{"mpirun", "-n", "2", "megacpp", "train", "r.yaml", "--set", "train.steps=9", "--run-dir",
                              run(), "--json"}));
  EXPECT_EQ(starts[1], (Words{"mpirun", "-n", "2", "megacpp", "train", "--resume", run(), "--json"}))
      << "what the line sets is in the recipe of the run";
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("1 of 3: the training was ended by signal 9; goes on after step 4; lost: 3 steps, 1.5"),
            std::string::npos)
      << said_[0];
}

TEST_F(RestartsTest, ARunThatSavedNothingBeginsAnew) {
  const std::vector<Words> starts =
      starts_of(supervised_training(train_words()), {.program = "megacpp", .restarts = 1}, [&] {
        leave_run(2, 0);
        return 1;
      });
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1], starts[0]);
  EXPECT_TRUE(is_run(run() + ".failed-1")) << "it is kept";
  EXPECT_FALSE(is_run(run()));
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_NE(said_[0].find("nothing was saved"), std::string::npos) << said_[0];
  EXPECT_EQ(said_[1], "nothing more was saved than before: in 5.00 s");
}

TEST_F(RestartsTest, AfterAllRestartsItIsGivenUp) {
  int starts = 0;
  const auto killed = [&](const Start&) {
    ++starts;
    leave_run(3, 2);
    return 128 + SIGKILL;
  };
  EXPECT_EQ(run_with_restarts(supervised_training(train_words()), {.program = "megacpp", .restarts = 2}, killed, log_),
            128 + SIGKILL);
  EXPECT_EQ(starts, 3);
  EXPECT_NE(said_.back().find("given up"), std::string::npos);
}

TEST_F(RestartsTest, WhatWouldFailAgainIsNotTriedAgain) {
  for (const int status : {0, 2, 3, 70, 130}) EXPECT_FALSE(is_worth_a_restart(status)) << status;
  for (const int status : {1, 128 + SIGKILL, 128 + SIGSEGV, 128 + SIGTERM}) EXPECT_TRUE(is_worth_a_restart(status));
}

TEST_F(RestartsTest, LinesThatCannotBeStartedAgainAreRefused) {
  for (const Words& words : {Words{}, Words{"plan", "r.yaml"}, Words{"train"}, Words{"train", "r.yaml"},
                             Words{"train", "--json", "--run-dir", "a"}})
    testing_support::problem_of(base::Code::E1007, [&] { supervised_training(words); });
  testing_support::problem_of(base::Code::E1206, [&] { supervised_training({"train", "--resume", run()}); });
}

// One that fails before it has written the run's recipe leaves that of the start before.
TEST_F(RestartsTest, ARunThatGoesOnIsToldWhatTheLineSetsUntilItsRecipeHasIt) {
  leave_run(3, 2);
  std::vector<Words> starts;
  run_with_restarts(
      supervised_training({"train", "--resume=" + run(), "--set", "train.steps=9", "--backend=cpu", "--json"}),
      {.program = "megacpp", .restarts = 2},
      [&](const Start& start) {
        starts.push_back(start.words);
        if (starts.size() == 2) base::write_file_atomically(recipe_file_of(run()), "name: b\n");
        return starts.size() == 3 ? 0 : 1;
      },
      log_);
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts[0],
            (Words{"megacpp", "train", "--resume=" + run(), "--set", "train.steps=9", "--backend=cpu", "--json"}));
  EXPECT_EQ(starts[1],
            (Words{"megacpp", "train", "--resume", run(), "--set", "train.steps=9", "--set", "backend=cpu", "--json"}));
  EXPECT_EQ(starts[2], (Words{"megacpp", "train", "--resume", run(), "--json"}));
}

TEST_F(RestartsTest, ALauncherHasTheWaitLimitAndFiveSecondsToEndAfterTheTraining) {
  base::write_file_atomically(folder_ / "r.yaml",
                              base::read_file(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml"));
  const SupervisedTraining training =
      supervised_training({"train", (folder_ / "r.yaml").string(), "--set", "train.wait_limit=1", "--run-dir", run()});
  run_with_restarts(
      training, {.program = "megacpp", .restarts = 0},
      [&](const Start& start) {
        EXPECT_FALSE(start.is_overdue(base::Children::living));
        std::optional<RunDirectory> held(RunDirectory::create(run(), "a"));
        EXPECT_FALSE(start.is_overdue(base::Children::living));
        held.reset();
        EXPECT_FALSE(start.is_overdue(base::Children::living)) << "it has train.wait_limit and five seconds";
        return 1;
      },
      log_);
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(RestartsTest, ARunThatIsThereIsNotTakenForTheTrainingsOwn) {
  leave_run(3, 2);
  int starts = 0;
  const auto start = [&](const Start&) { return ++starts; };
  testing_support::problem_of(base::Code::E1206, [&] {
    run_with_restarts(supervised_training(train_words()), {.program = "megacpp", .restarts = 2}, start, log_);
  });
  EXPECT_EQ(starts, 0);
}

TEST_F(RestartsTest, WhoIsAskedToStopWhileARunIsInUseStops) {
  const RunDirectory held = RunDirectory::create(run(), "a");
  int pauses = 0;
  RestartOptions options{.program = "megacpp", .restarts = 2};
  options.pause = [&](std::chrono::seconds) { ++pauses; };
  options.should_stop = [&] { return pauses > 2; };
  EXPECT_EQ(run_with_restarts(
                supervised_training(train_words()), options, [](const Start&) { return 0; }, log_),
            base::kInterruptedStatus);
  EXPECT_EQ(pauses, 3);
}

// Whatever status a launcher makes of a request, and whether the training could save.
TEST_F(RestartsTest, AStopSaysWhatItCost) {
  for (const int status : {130, 128 + SIGUSR1, 1})
    for (const int64_t saved : {0, 4, 7}) {
      bool is_asked = false;
      RestartOptions options{.program = "megacpp", .restarts = 2};
      options.should_stop = [&] { return is_asked; };
      said_.clear();
      EXPECT_EQ(run_with_restarts(
                    supervised_training(train_words()), options,
                    [&](const Start&) {
                      leave_run(7, saved);
                      is_asked = true;
                      return status;
                    },
                    log_),
                base::kInterruptedStatus);
      ASSERT_EQ(said_.size(), 1u);
      EXPECT_EQ(said_[0], saved == 0   ? "nothing was saved; lost: 7 steps, 3.50 s"
                          : saved == 4 ? "saved after step 4; lost: 3 steps, 1.50 s"
                                       : "saved after step 7; nothing is lost");
      std::filesystem::remove_all(run());
    }
}

TEST_F(RestartsTest, ATrainingThatEndsByItselfInTheMomentOfAStopHasEndedSo) {
  for (const int status : {0, 2, 3, 70}) {
    RestartOptions options{.program = "megacpp", .restarts = 2};
    bool is_asked = false;
    options.should_stop = [&] { return is_asked; };
    EXPECT_EQ(run_with_restarts(
                  supervised_training(train_words()), options,
                  [&](const Start&) {
                    is_asked = true;
                    return status;
                  },
                  log_),
              status);
  }
}

// Another process trains there: a second supervisor, or what is left of an earlier one.
TEST_F(RestartsTest, ARunThatAnotherTrainsIsLeftAlone) {
  for (const int64_t saved : {0, 2}) {
    std::optional<RunDirectory> held;
    int starts = 0;
    std::vector<int64_t> pauses;
    RestartOptions options{.program = "megacpp", .restarts = 2};
    options.pause = [&](std::chrono::seconds time) { pauses.push_back(time.count()); };
    const base::Problem problem = testing_support::problem_of(base::Code::E3003, [&] {
      run_with_restarts(
          supervised_training(train_words()), options,
          [&](const Start&) {
            held.emplace(RunDirectory::create(run(), "a"));
            leave_run(3, saved);
            return ++starts;
          },
          log_);
    });
    EXPECT_EQ(starts, 1);
    EXPECT_GT(pauses.size(), 5u) << "it may only take a moment";
    EXPECT_NE(problem.got.find(std::to_string(pauses.size()) + " s"), std::string::npos) << problem.got;
    EXPECT_TRUE(is_run(run())) << "nothing was renamed";
    held.reset();
    std::filesystem::remove_all(run());
  }
}

TEST_F(RestartsTest, AnErrorThatComesAgainAtOnceIsWaitedOut) {
  std::vector<int64_t> pauses;
  RestartOptions options{.program = "megacpp", .restarts = 5};
  options.pause = [&](std::chrono::seconds time) { pauses.push_back(time.count()); };
  const std::vector<std::pair<int, int64_t>> ends = {{1, 0}, {1, 0}, {128 + SIGKILL, 0}, {1, 4}, {1, 4}, {0, 0}};
  size_t starts = 0;
  run_with_restarts(
      supervised_training(train_words()), options,
      [&](const Start&) {
        const auto [status, saved] = ends[starts++];
        if (saved > 0) leave_run(saved, saved);
        return status;
      },
      log_);
  EXPECT_EQ(starts, ends.size());
  EXPECT_EQ(pauses, (std::vector<int64_t>{5, 10, 5})) << "not after a signal, nor after a new checkpoint";
}

TEST_F(RestartsTest, PausesGrow) {
  EXPECT_EQ(pause_after(1), std::chrono::seconds(5));
  EXPECT_EQ(pause_after(2), std::chrono::seconds(10));
  EXPECT_EQ(pause_after(100), std::chrono::minutes(5));
}

/// A training on two hosts, whose answers and layouts are made up.
class FewerHostsTest : public RestartsTest {
 protected:
  FewerHostsTest() {
    base::write_file_atomically(folder_ / "r.yaml",
                                base::read_file(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml"));
  }

  SupervisedTraining training() const {
    return supervised_training(
        {"train", (folder_ / "r.yaml").string(), "--set", "layout.data_parallel=4", "--run-dir", run()});
  }

  RestartOptions options() {
    RestartOptions options{
        .launcher = {"mpirun", "-n", "{processes}", "--host", "{hosts}"}, .program = "megacpp", .restarts = 2};
    options.pool.hosts = {{.name = "a", .processes = 1}, {.name = "b", .processes = 1}};
    options.pool.answers = [this](const std::string& host) {
      return lost_.find(host) == std::string::npos ? base::Decision::yes() : base::Decision::no("no route");
    };
    options.pause = [this](std::chrono::seconds time) {
      pauses_.push_back(time.count());
      if (pauses_.size() == 2) lost_ = "";
    };
    options.pool.find_layout = [this](const LayoutWish& wish) -> plan::Changes {
      wishes_.push_back(wish.chips);
      EXPECT_EQ(wish.chips_of_host, 2);
      return {{"layout.data_parallel", std::to_string(wish.chips)}};
    };
    return options;
  }

  /// As a training leaves it that runs in this layout.
  void leave_layout(int64_t data_parallel, std::vector<std::string> more = {"layout.zero=3"}) const {
    leave_run(7, 4);
    more.push_back("layout.data_parallel=" + std::to_string(data_parallel));
    base::write_file_atomically(recipe_file_of(run()), recipe::print(recipe::load(folder_ / "r.yaml", more)));
  }

  std::string lost_;             // names of hosts that do not answer
  std::vector<int64_t> wishes_;  // chips that a layout was looked for
  std::vector<int64_t> pauses_;  // seconds; after the second one all hosts answer
};

TEST_F(FewerHostsTest, ALostHostIsLeftOutAndTheRestGetALayoutThatFits) {
  std::vector<Words> starts;
  const int status = run_with_restarts(
      training(), options(),
      [&](const Start& start) {
        starts.push_back(start.words);
        if (starts.size() > 1) return 0;
        leave_layout(4);
        lost_ = "b";
        return 128 + SIGKILL;
      },
      log_);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(Words(starts[0].begin(), starts[0].begin() + 6),
            (Words{"mpirun", "-n", "2", "--host", "a:1,b:1", "megacpp"}));
  EXPECT_EQ(starts[1], (Words{"mpirun", "-n", "1", "--host", "a:1", "megacpp", "train", "--resume", run(), "--set",
                              "layout.data_parallel=2"}));
  EXPECT_EQ(wishes_, (std::vector<int64_t>{2}));
  ASSERT_EQ(said_.size(), 3u);
  EXPECT_NE(said_[0].find("lost: 3 steps"), std::string::npos) << said_[0];
  EXPECT_EQ(said_[1], "no answer from b (no route); 1 of 2 processes");
  EXPECT_NE(said_[2].find("2 chips, where it had 4: "), std::string::npos) << said_[2];
  EXPECT_NE(said_[2].find("layout.data_parallel"), std::string::npos) << said_[2];
}

TEST_F(FewerHostsTest, AHostThatAnswersAgainIsTakenBack) {
  lost_ = "b";
  const std::vector<Words> starts = starts_of(training(), options(), [&] {
    leave_layout(2);
    lost_ = "";
    return 1;
  });
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0][2], "1");
  EXPECT_EQ(starts[1][2], "2");
  EXPECT_EQ(wishes_, (std::vector<int64_t>{2})) << "as many chips as at first have the layout of the first start";
  EXPECT_EQ(Words(starts[1].end() - 4, starts[1].end()),
            (Words{"--set", "layout.data_parallel=4", "--set", "layout.zero=-1"}));
  ASSERT_EQ(said_.size(), 5u);
  EXPECT_EQ(said_[3], "all answer again; 2 of 2 processes");
  EXPECT_NE(said_[4].find("(was 3)"), std::string::npos) << said_[4];
}

// What a smaller layout needed is not kept where there is room again.
TEST_F(FewerHostsTest, TheFirstLayoutHasItsRecomputeAgain) {
  const std::vector<Words> starts = starts_of(training(), options(), [&] {
    leave_layout(2, {"train.recompute.A=full"});
    return 1;
  });
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(Words(starts[1].end() - 4, starts[1].end()),
            (Words{"--set", "layout.data_parallel=4", "--set", "train.recompute.A=auto"}));
}

// The rung of the ladder at which the run fits is in its recipe.
TEST_F(FewerHostsTest, OnAsManyChipsARunKeepsWhatItsLadderCameTo) {
  const std::vector<Words> starts = starts_of(training(), options(), [&] {
    leave_layout(4, {"train.batch=4", "train.micro_steps=2"});
    return 1;
  });
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1], (Words{"mpirun", "-n", "2", "--host", "a:1,b:1", "megacpp", "train", "--resume", run()}));
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(FewerHostsTest, ANewSupervisorKnowsTheFirstLayout) {
  lost_ = "b";
  run_with_restarts(
      training(), options(),
      [&](const Start& start) {
        leave_layout(2);
        EXPECT_FALSE(start.is_overdue(base::Children::living));  // as a tick: the supervisor may be killed behind it
        EXPECT_TRUE(base::exists(first_recipe_file_of(run())));
        return 130;
      },
      log_);
  lost_ = "";
  said_.clear();
  std::vector<Words> starts;
  run_with_restarts(
      supervised_training({"train", "--resume", run()}), options(),
      [&](const Start& start) {
        starts.push_back(start.words);
        return 0;
      },
      log_);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0], (Words{"mpirun", "-n", "2", "--host", "a:1,b:1", "megacpp", "train", "--resume", run(), "--set",
                              "layout.data_parallel=4", "--set", "layout.zero=-1"}));
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("4 chips, where it had 2"), std::string::npos) << said_[0];
}

TEST_F(FewerHostsTest, WithoutAnyHostNothingIsStarted) {
  lost_ = "ab";
  const base::Problem problem = testing_support::problem_of(base::Code::E3104, [&] {
    run_with_restarts(
        training(), options(), [](const Start&) { return 0; }, log_);
  });
  EXPECT_EQ(problem.got, "no answer from a (no route), b (no route)");
  EXPECT_TRUE(pauses_.empty()) << "the user is there";
}

TEST_F(FewerHostsTest, HostsThatAreGoneForAWhileAreWaitedFor) {
  RestartOptions patient = options();
  patient.restarts = 3;
  int starts = 0;
  const int status = run_with_restarts(
      training(), patient,
      [&](const Start&) {
        leave_layout(4);
        lost_ = "ab";
        return ++starts == 2 ? 0 : 1;
      },
      log_);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(pauses_, (std::vector<int64_t>{5, 10}));
  ASSERT_GE(said_.size(), 3u);
  EXPECT_EQ(said_[1], "no answer from a (no route), b (no route); asked again in 5.00 s, restart 2 of 3");
}

TEST_F(FewerHostsTest, HostsThatStayAwayAreGivenUp) {
  testing_support::problem_of(base::Code::E3104, [&] {
    run_with_restarts(
        training(), options(),
        [&](const Start&) {
          leave_layout(4);
          lost_ = "ab";
          return 1;
        },
        log_);
  });
  EXPECT_EQ(pauses_, (std::vector<int64_t>{5})) << "two restarts";
}

TEST_F(FewerHostsTest, ARequestToStopEndsTheSearchForHosts) {
  RestartOptions stopped = options();
  stopped.should_stop = [] { return true; };
  lost_ = "ab";
  EXPECT_EQ(run_with_restarts(
                training(), stopped, [](const Start&) { return 0; }, log_),
            base::kInterruptedStatus);
}

TEST_F(FewerHostsTest, HostsThatDoNotGoWithTheLayoutOrTheLauncherAreRefused) {
  const auto start = [&](const RestartOptions& given) {
    run_with_restarts(
        training(), given, [](const Start&) { return 0; }, log_);
  };
  RestartOptions odd = options();
  odd.pool.hosts[0].processes = 2;
  testing_support::problem_of(base::Code::E1007, [&] { start(odd); });
  RestartOptions fixed = options();
  fixed.launcher = {"mpirun", "-n", "2"};
  const base::Problem problem = testing_support::problem_of(base::Code::E1007, [&] { start(fixed); });
  EXPECT_NE(problem.wanted.find("{processes}"), std::string::npos);
  RestartOptions unknown = options();
  unknown.launcher.push_back("{host}");
  EXPECT_EQ(testing_support::problem_of(base::Code::E1007, [&] { start(unknown); }).got, "{host}");
  RestartOptions without = options();
  without.pool.hosts.clear();
  EXPECT_NE(testing_support::problem_of(base::Code::E1007, [&] { start(without); }).got.find("without --hosts"),
            std::string::npos);
}

TEST(HostPoolTest, AHostIsAskedWithItsNameAndSaysWhyNot) {
  EXPECT_TRUE(static_cast<bool>(ask_host(probe_of({"test", "{host}", "=", "a"}), "a")));
  EXPECT_EQ(ask_host(probe_of({"test", "{host}", "=", "a"}), "b").reason(), "the probe ended with status 1");
  EXPECT_EQ(ask_host(probe_of({"sh", "-c", "echo {host} is down; echo; exit 3"}), "b").reason(), "b is down");
  testing_support::problem_of(base::Code::E1007, [] { probe_of({}); });
  testing_support::problem_of(base::Code::E1007, [] { probe_of({"ping", "host"}); });
  testing_support::problem_of(base::Code::E1007, [] {
    ask_host(probe_of({"no-such-probe-of-megacpp", "{host}"}), "a");
  });
}

TEST(HostPoolTest, AProbeThatHangsIsNoAnswer) {
  Probe probe = probe_of({"sh", "-c", "sleep 60; echo {host}"});
  probe.limit = std::chrono::seconds(1);
  EXPECT_EQ(ask_host(probe, "a").reason(), "nothing for 1 s");
}

TEST(HostPoolTest, AllHostsAreAskedAtOnce) {
  std::mutex mutex;
  std::condition_variable all_came;
  int asked = 0;
  HostPool pool;
  pool.hosts = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  pool.answers = [&](const std::string& host) {
    std::unique_lock lock(mutex);
    ++asked;
    all_came.notify_all();
    EXPECT_TRUE(all_came.wait_for(lock, std::chrono::seconds(30), [&] { return asked == 3; }));
    return host == "b" ? base::Decision::no("why") : base::Decision::yes();
  };
  const std::vector<base::Decision> answers = pool.ask_all();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(answers[0] && !answers[1] && answers[2]);
}

TEST(HostPoolTest, HostsAreReadAndWritten) {
  const std::vector<HostSlots> hosts = hosts_in("node7:4,node8");
  EXPECT_EQ(hosts, (std::vector<HostSlots>{{.name = "node7", .processes = 4}, {.name = "node8", .processes = 1}}));
  EXPECT_EQ(to_text(hosts), "node7:4,node8:1");
  EXPECT_EQ(processes_on(hosts), 5);
  for (const char* bad : {"", ",", "a:", "a:0", "a:-1", "a:x", ":4", "a,a", "a:4,", "a:1b", "a b", "-v", "a;b"})
    testing_support::problem_of(base::Code::E1007, [&] { hosts_in(bad); });
}

TEST(HostPoolTest, TheBestLayoutKeepsTheGlobalBatch) {
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                   std::vector<std::string>{"layout.data_parallel=4", "train.batch=8", "train.sequence=32",
                                            "model.depth=2", "train.threads=2"});
  const plan::Changes changes = best_layout({.recipe = recipe, .chips = 2, .chips_of_host = 2});
  const recipe::Recipe fewer = fit::with_changes(recipe, changes);
  EXPECT_EQ(recipe::chips_of(fewer.layout), 2);
  EXPECT_EQ(fewer.train.batch * fewer.train.micro_steps, recipe.train.batch * recipe.train.micro_steps);
}

}  // namespace
}  // namespace megacpp::launch
