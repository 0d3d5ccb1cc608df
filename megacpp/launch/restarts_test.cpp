// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/restarts.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "megacpp/base/file.h"
#include "megacpp/checkpoint/writer.h"
#include "megacpp/launch/run_directory.h"
#include "megacpp/train/step_log.h"
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

  const testing_support::TemporaryFolder folder_;
  std::vector<std::string> said_;
  Log log_ = [this](const Line& line) { said_.push_back(line.text); };
};

TEST_F(RestartsTest, AKilledRunGoesOnFromItsCheckpoint) {
  std::vector<Words> starts;
  const int status = run_with_restarts(
      supervised_training(train_words()), {.launcher = {"mpirun", "-n", "2"}, .program = "megacpp", .restarts = 3},
      [&](const Words& words) {
        starts.push_back(words);
        if (starts.size() > 1) return 0;
        leave_run(7, 4);
        return 128 + SIGKILL;
      },
      log_);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0], (Words{"mpirun", "-n", "2", "megacpp", "train", "r.yaml", "--set", "train.steps=9", "--run-dir",
                              run(), "--json"}));
  EXPECT_EQ(starts[1],
            (Words{"mpirun", "-n", "2", "megacpp", "train", "--resume", run(), "--set", "train.steps=9", "--json"}));
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("1 of 3: the training was ended by signal 9; goes on after step 4; lost: 3 steps, 1.5"),
            std::string::npos)
      << said_[0];
}

TEST_F(RestartsTest, ARunThatSavedNothingBeginsAnew) {
  std::vector<Words> starts;
  run_with_restarts(
      supervised_training(train_words()), {.program = "megacpp", .restarts = 1},
      [&](const Words& words) {
        starts.push_back(words);
        if (starts.size() > 1) return 0;
        leave_run(2, 0);
        return 1;
      },
      log_);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1], starts[0]);
  EXPECT_TRUE(is_run(run() + ".failed-1")) << "it is kept";
  EXPECT_FALSE(is_run(run()));
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("nothing was saved"), std::string::npos) << said_[0];
}

TEST_F(RestartsTest, AfterAllRestartsItIsGivenUp) {
  int starts = 0;
  const auto killed = [&](const Words&) {
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

TEST_F(RestartsTest, ARunThatGoesOnKeepsItsFlags) {
  leave_run(3, 2);
  const SupervisedTraining training = supervised_training({"train", "--resume=" + run(), "--set", "train.steps=9"});
  EXPECT_TRUE(training.resumes);
  EXPECT_EQ(training.next_words(true), (Words{"train", "--resume", run(), "--set", "train.steps=9"}));
}

}  // namespace
}  // namespace megacpp::launch
