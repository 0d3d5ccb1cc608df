// SPDX-License-Identifier: Apache-2.0
// A training over two processes leaves what one process leaves: checkpoints, losses, and what every chip has used; and
// each process reads its own samples alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/launch/training.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::launch {
namespace {

/// Remembers which samples were read.
class WatchedCorpus final : public data::TokenSource {
 public:
  explicit WatchedCorpus(const data::TokenSource& corpus) : corpus_(corpus) {}

  int64_t sequences(const data::Draw& draw, int64_t length) const override { return corpus_.sequences(draw, length); }
  void read(const data::Draw& draw, int64_t sample, std::span<int32_t> tokens,
            std::span<int32_t> segments) const override {
    const std::lock_guard lock(mutex_);
    samples_.insert(sample);
    corpus_.read(draw, sample, tokens, segments);
  }
  int64_t vocabulary() const override { return corpus_.vocabulary(); }
  uint64_t fingerprint() const override { return corpus_.fingerprint(); }
  std::string describe() const override { return corpus_.describe(); }

  const std::set<int64_t>& samples() const { return samples_; }

 private:
  const data::TokenSource& corpus_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> samples_;
};

class TrainingTogetherTest : public testing::Test {
 protected:
  struct Run {
    std::vector<train::StepReport> reports;
    RunMeasures measures;
    int64_t saves = 0;
    std::set<int64_t> samples;
    std::string path;
  };

  // As many threads for a chip in one process as in two: the same sums.
  static recipe::Recipe recipe(int64_t threads, const std::string& layout) {
    return recipe::load(
        std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
        std::vector<std::string>{layout, "train.steps=4", "train.sequence=32", "train.batch=4", "train.micro_steps=2",
                                 "model.depth=2", "train.log_every=1", "checkpoint.every=2", "checkpoint.keep=0",
                                 "train.wait_limit=60", "train.threads=" + std::to_string(threads)});
  }

  Run train_in(Launch& launch, const std::string& folder, const std::optional<std::filesystem::path>& from) const {
    launch.prepare();
    const WatchedCorpus source(corpus_);
    std::optional<RunDirectory> directory;
    if (launch.agreement().is_coordinator()) directory.emplace(RunDirectory::create(folder_ / folder, "run"));
    std::optional<checkpoint::Reader> checkpoint;
    if (from) checkpoint.emplace(*from);
    const Trained trained = run_training(
        launch, source,
        {.directory = directory ? &*directory : nullptr, .checkpoint = checkpoint ? &*checkpoint : nullptr});
    return {trained.reports, trained.measures, trained.saves, source.samples(), trained.started.run->path()};
  }

  Run train_alone(const std::string& folder, const std::string& layout = "layout.data_parallel=2") const {
    Launch launch(recipe(2, layout), {.none = true});
    return train_in(launch, folder, {});
  }

  std::vector<Run> train_together(const std::string& folder, const std::string& layout = "layout.data_parallel=2",
                                  const std::optional<std::filesystem::path>& from = {}) {
    std::vector<Run> runs(processes_.count());
    processes_.run([&](size_t process) {
      Launch launch(recipe(1, layout), {.none = true}, no_log,
                    {.transport = processes_.transport(process), .free_memory = [] { return int64_t{1} << 50; }});
      runs[process] = train_in(launch, folder, from);
    });
    return runs;
  }

  std::filesystem::path checkpoint_of(const std::string& run, int64_t step) const {
    return checkpoint::Store(folder_ / run / "checkpoints").path_of(step);
  }

  void expect_same_checkpoint(const std::string& run, const std::string& other, int64_t step) const {
    std::map<std::string, std::string> files, wanted;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint_of(run, step)))
      files[entry.path().filename()] = base::read_file(entry.path());
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint_of(other, step)))
      wanted[entry.path().filename()] = base::read_file(entry.path());
    EXPECT_TRUE(files == wanted) << run << " and " << other << ", step " << step;
    EXPECT_TRUE(checkpoint::verify(checkpoint_of(run, step)).empty());
  }

  const testing_support::TemporaryFolder folder_;
  const data::TextCorpus corpus_ =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  testing_support::Processes processes_{2};
};

TEST_F(TrainingTogetherTest, CheckpointsLossesAndMemoryAreThoseOfOneProcess) {
  const Run alone = train_alone("alone");
  const std::vector<Run> together = train_together("together");
  for (const int64_t step : {2, 4}) expect_same_checkpoint("together", "alone", step);
  for (const Run& process : together) {
    EXPECT_EQ(process.saves, 2);
    EXPECT_EQ(process.path, "cpu, 2 processes over inproc, exact sums");
    ASSERT_EQ(process.reports.size(), alone.reports.size());
    for (size_t i = 0; i < alone.reports.size(); ++i) {
      EXPECT_EQ(process.reports[i].loss, alone.reports[i].loss);
      EXPECT_EQ(process.reports[i].peak_bytes, alone.reports[i].peak_bytes);
    }
    ASSERT_EQ(process.measures.chips.size(), 2u);
    for (const ChipReport& chip : process.measures.chips)
      EXPECT_EQ(chip.memory.measured_peak_bytes, chip.memory.planned_peak_bytes);
  }
}

TEST_F(TrainingTogetherTest, EachReadsItsOwnSamplesAlone) {
  const Run alone = train_alone("alone");
  const std::vector<Run> together = train_together("together");
  std::set<int64_t> all;
  for (const Run& process : together) all.insert(process.samples.begin(), process.samples.end());
  EXPECT_EQ(all, alone.samples);
  EXPECT_EQ(together[0].samples.size() + together[1].samples.size(), all.size()) << "no sample is read twice";
}

TEST_F(TrainingTogetherTest, ARunGoesOnWhereItsProcessesSavedIt) {
  train_together("whole");
  train_together("again", "layout.data_parallel=2", checkpoint_of("whole", 2));
  expect_same_checkpoint("again", "whole", 4);
}

// As on a host that does not have the file system of the others.
TEST_F(TrainingTogetherTest, ARunDirectoryThatOneProcessCannotWriteEndsAll) {
  std::vector<base::Error> errors(2, base::Error(base::Code::E9001, {}));
  processes_.run([&](size_t process) {
    Launch launch(recipe(1, "layout.data_parallel=2"), {.none = true}, no_log,
                  {.transport = processes_.transport(process), .free_memory = [] { return int64_t{1} << 50; }});
    launch.prepare();
    std::optional<RunDirectory> directory;
    if (process == 0) {
      directory.emplace(RunDirectory::create(folder_ / "gone", "run"));
      std::filesystem::remove_all(folder_ / "gone");
    }
    errors[process] = testing_support::error_of(
        [&] { run_training(launch, corpus_, {.directory = directory ? &*directory : nullptr}); });
  });
  EXPECT_EQ(errors[1].code(), base::Code::E3001) << errors[1].what();
  EXPECT_EQ(errors[0].code(), base::Code::E3101) << errors[0].what();
  EXPECT_NE(std::string(errors[0].what()).find("E3001"), std::string::npos) << errors[0].what();
}

// The last stage makes the losses; the first process prints them.
TEST_F(TrainingTogetherTest, LossesOfTheLastStageReachTheFirstProcess) {
  const std::string layout = "layout.pipeline_parallel=2";
  const Run alone = train_alone("alone", layout);
  const std::vector<Run> together = train_together("together", layout);
  ASSERT_EQ(together[0].reports.size(), alone.reports.size());
  for (size_t i = 0; i < alone.reports.size(); ++i) {
    ASSERT_TRUE(alone.reports[i].loss.has_value());
    EXPECT_EQ(together[0].reports[i].loss, alone.reports[i].loss);
    EXPECT_EQ(together[0].reports[i].grad_norm, alone.reports[i].grad_norm);
  }
  expect_same_checkpoint("together", "alone", 4);
}

}  // namespace
}  // namespace megacpp::launch
