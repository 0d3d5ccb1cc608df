// SPDX-License-Identifier: Apache-2.0
// A launch that is stopped while it trains.
#include "megacpp/run/launch/training.h"

#include <gtest/gtest.h>

#include <atomic>

#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/text_corpus.h"

namespace megacpp::launch {
namespace {

constexpr int64_t kMicroSteps = 8;

/// Three steps of eight micro-steps. Stopped when should_stop is called the `calls`-th time: before every step, and
/// before every micro-step on each chip.
Trained train_until(int64_t calls, std::vector<std::string> settings = {}) {
  settings.insert(settings.begin(), {"train.steps=3", "train.micro_steps=8", "train.batch=2", "train.sequence=16",
                                     "model.depth=2", "train.threads=1", "train.wait_limit=60"});
  Launch launch(recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings), {.none = true});
  launch.prepare();
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  std::atomic<int64_t> called{0};
  Trained trained = run_training(launch, corpus, {.should_stop = [&] { return ++called >= calls; }});
  // What is looked at here is the host's; the programs belong to the launch, which ends.
  trained.started = {};
  return trained;
}

TEST(TrainingTest, OnEveryMeshAStepIsLeftBetweenItsMicroSteps) {
  for (const char* layout :
       {"layout.data_parallel=1", "layout.data_parallel=2", "layout.tensor_parallel=2", "layout.pipeline_parallel=2"}) {
    const Trained trained = train_until(4, {layout});
    EXPECT_TRUE(trained.was_stopped) << layout;
    EXPECT_TRUE(trained.reports.empty()) << layout << ": step 0 is not whole";
  }
}

TEST(TrainingTest, AfterTheLastMicroStepTheStepIsEnded) {
  const Trained trained = train_until(1 + kMicroSteps + 1);
  EXPECT_TRUE(trained.was_stopped);
  EXPECT_EQ(train::steps_in(trained.reports), 1);
  EXPECT_FALSE(train_until(INT64_MAX).was_stopped);
}

TEST(TrainingTest, AStepThatWasLeftChangesNoReport) {
  const Trained whole = train_until(INT64_MAX, {"train.log_every=1"});
  const Trained trained = train_until(2 * (1 + kMicroSteps) + 5, {"train.log_every=1"});
  ASSERT_EQ(trained.reports.size(), 2u);
  for (size_t step = 0; step < 2; ++step) EXPECT_EQ(trained.reports[step].loss, whole.reports[step].loss);
}

// Its micro-steps have overwritten the losses that nobody fetched.
TEST(TrainingTest, MetricsOfAnUnloggedStepBeforeItAreAbsent) {
  const Trained trained = train_until(2 * (1 + kMicroSteps) + 5, {"train.log_every=3"});
  ASSERT_EQ(trained.reports.size(), 2u);
  EXPECT_TRUE(trained.reports[0].loss.has_value());
  EXPECT_EQ(trained.reports[1].step, 1);
  EXPECT_EQ(trained.reports[1].steps, 1);
  EXPECT_FALSE(trained.reports[1].loss.has_value());
  EXPECT_GT(trained.reports[1].seconds, 0);
}

}  // namespace
}  // namespace megacpp::launch
