// SPDX-License-Identifier: Apache-2.0
// A host that has too little memory for the snapshot of checkpoints says so when step 0 has ended, while the ladder can
// still answer, and not at the first save.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/spare_memory.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/run/checkpoint/store.h"
#include "megacpp/run/launch/training.h"
#include "megacpp/run/train/state_saver.h"
#include "tests/end_to_end/training_run.h"
#include "tests/support/no_memory.h"
#include "tests/support/temporary_folder.h"

namespace megacpp {
namespace {

using testing_support::TemporaryFolder;
using testing_support::TrainingRun;

constexpr int64_t kPlenty = int64_t{1} << 50;

TEST(SnapshotMemoryTest, TooLittleIsAnErrorOfTheHostWithItsBytes) {
  const TemporaryFolder folder;
  TrainingRun run({});
  const int64_t bytes = compile::kept_bytes(run.compiled());
  train::SaveOptions options{.store = checkpoint::Store(folder.path()), .header = train::manifest_header(run.recipe())};
  options.free_bytes = [bytes] { return bytes - 1; };
  train::StateSaver saver(run.compiled(), run.executable(), std::move(options));
  try {
    saver.obtain_snapshot();
    FAIL() << "no error";
  } catch (const memory::OutOfMemory& error) {
    EXPECT_EQ(error.code(), base::Code::E2005);
    EXPECT_EQ(error.facts().cls, memory::OomClass::host);
    EXPECT_EQ(error.facts().wanted, bytes);
    EXPECT_EQ(error.facts().limit, bytes - 1);
  }
}

// Ends the process; 0 where a save without memory is an error of the host, and leaves what was there before and no
// more.
[[noreturn]] void save_without_memory() {
  int status = 1;
  testing_support::share_memory_between_threads();
  base::keep_spare_memory();
  {
    const TemporaryFolder folder;
    TrainingRun run({});
    const checkpoint::Store store(folder.path());
    std::string log;
    train::SaveOptions options{.store = store, .header = train::manifest_header(run.recipe())};
    options.log = [&](const std::string& text) { log += text + "\n"; };
    train::StateSaver saver(run.compiled(), run.executable(), std::move(options));
    saver.save(1);
    saver.finish();
    testing_support::leave_no_memory(100);  // for a copy of the state, and not for a checkpoint
    try {
      saver.save(2);
      saver.finish();
    } catch (const base::Error& error) {
      const bool is_said = log.find("step 2 was not saved") != std::string::npos;
      const bool is_clean = store.steps() == std::vector<int64_t>{1} && base::list_folder(folder.path()).size() == 2;
      if (error.code() == base::Code::E2005 && is_said && is_clean) status = 0;
      std::fprintf(stderr, "%s\n%s", error.what(), log.c_str());
    }
  }
  std::_Exit(status);
}

TEST(SnapshotMemoryTest, ASaveWithoutMemoryIsAnErrorAndLeavesNothingBehind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  EXPECT_EXIT(save_without_memory(), testing::ExitedWithCode(0), "");
}

// What a host is asked for before anything is loaded is what a saver obtains there later.
TEST(SnapshotMemoryTest, ItsBytesAreKnownBeforeAnythingIsLoaded) {
  recipe::Layout layout;
  layout.data_parallel = 2;
  layout.zero = 1;
  TrainingRun run(layout);
  const int64_t first = train::snapshot_bytes(run.compiled(), {0}), second = train::snapshot_bytes(run.compiled(), {1});
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0) << "chips share the work";
  EXPECT_EQ(first + second, compile::kept_bytes(run.compiled()));
  EXPECT_EQ(train::snapshot_bytes(run.compiled(), {0, 1}), first + second);
}

// What a plan takes a host to have of the snapshot: all of a stage whose chips it has, and of one that it shares a part
// that is even but for the size of a tensor.
TEST(SnapshotMemoryTest, PlansDivideItByStageAsChipsDo) {
  recipe::Layout layout;
  layout.pipeline_parallel = 2;
  layout.data_parallel = 2;
  TrainingRun run(layout);
  const compile::Compiled& compiled = run.compiled();
  const std::vector<int64_t> by_stage = compile::kept_bytes_by_stage(compiled);
  ASSERT_EQ(by_stage.size(), 2u);
  EXPECT_NE(by_stage[0], by_stage[1]) << "stages that are alike show nothing";
  EXPECT_EQ(by_stage[0] + by_stage[1], compile::kept_bytes(compiled));
  std::vector<std::vector<int64_t>> chips(2);
  for (int64_t chip = 0; chip < compiled.mesh.chips(); ++chip) chips[compiled.stage_of(chip)].push_back(chip);
  for (size_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(train::snapshot_bytes(compiled, chips[stage]), by_stage[stage]);
    int64_t largest = 0;
    for (const compile::StateTensor& tensor : compiled.stages[stage].state)
      if (tensor.kept) largest = std::max(largest, tensor.whole.bytes());
    EXPECT_NEAR(static_cast<double>(train::snapshot_bytes(compiled, {chips[stage].front()})),
                static_cast<double>(by_stage[stage]) / 2, static_cast<double>(largest));
  }
}

// Where step 0 is saved, too little is found by that save, which is in the ladder's window too.
class SnapshotWindowTest : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Every, SnapshotWindowTest, testing::Values(0, 1));

TEST_P(SnapshotWindowTest, TooLittleAfterTheFirstStepIsAnsweredByTheLadder) {
  const TemporaryFolder folder;
  recipe::Recipe recipe = testing_support::small_training_recipe({});
  recipe.train.threads = 1;
  recipe.checkpoint.every = GetParam();
  launch::Launch launch(recipe, {.none = true});
  launch.prepare();
  const int64_t bytes = compile::kept_bytes(launch.estimate().compiled);
  launch::RunDirectory directory = launch::RunDirectory::create(folder / "run", recipe.name);
  int64_t loads = 0, questions = 0;
  launch::TrainingOptions options;
  options.directory = &directory;
  options.before_steps = [&](const launch::StartedRun&) { ++loads; };
  options.free_host_bytes = [&] { return ++questions == 1 ? bytes - 1 : kPlenty; };
  const launch::Trained trained = launch::run_training(launch, testing_support::small_corpus(), options);
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(questions, 2) << "once for each load";
  EXPECT_GT(launch.rung(), 0U);
  EXPECT_EQ(train::steps_in(trained.reports), recipe.train.steps);
  EXPECT_EQ(trained.saves, GetParam() == 1 ? recipe.train.steps : 1);
}

}  // namespace
}  // namespace megacpp
