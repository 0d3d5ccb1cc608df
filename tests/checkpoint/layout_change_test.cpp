// SPDX-License-Identifier: Apache-2.0
// One training run that changes its layout after every step, for every optimizer and with adapters, and what each chip
// saves of it.
#include <gtest/gtest.h>
#include <pthread.h>

#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "megacpp/program/compile/state_table.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/train/load_state.h"
#include "megacpp/run/train/state_saver.h"
#include "tests/checkpoint/layout_run.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp {
namespace {

using testing_support::files_of;
using testing_support::LayoutRun;
using testing_support::recipe_in;
using testing_support::TemporaryFolder;

void change_layouts(const std::vector<std::string>& layouts, const std::string& more = "") {
  std::vector<testing_support::Leg> legs;
  for (const std::string& layout : layouts) legs.push_back({.layout = layout});
  testing_support::train_through(legs, more);
}

TEST(LayoutChangeTest, ARunGoesOnInAnyOtherLayout) {
  change_layouts({"", "data_parallel=2", "tensor_parallel=2", "expert_parallel=2", "context_parallel=2",
                  "data_parallel=4 zero=0", "data_parallel=3 zero=1", "data_parallel=4 zero=2",
                  "data_parallel=3 zero=3", "tensor_parallel=4 sequence_parallel=false",
                  "data_parallel=2 tensor_parallel=2 policy=fsdp", "data_parallel=2 tensor_parallel=2 policy=megatron",
                  "expert_parallel=2 tensor_parallel=2", "pipeline_parallel=2",
                  "pipeline_parallel=2 data_parallel=2 zero=1",
                  "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
                  "data_parallel=2 expert_parallel=2 zero=3", "pipeline_parallel=2 tensor_parallel=2", ""});
}

TEST(LayoutChangeTest, TiedWeightsAreSavedOnceFromEveryStage) {
  change_layouts({"pipeline_parallel=2", "tensor_parallel=4", "pipeline_parallel=3", "data_parallel=3 zero=3", ""},
                 "model.tie_embeddings=true model.vocab=259 train.micro_steps=4");
}

TEST(LayoutChangeTest, StateOfEveryOptimizerTravels) {
  change_layouts({"data_parallel=2 zero=1", "tensor_parallel=2", "pipeline_parallel=2", ""},
                 "optimizer.name=sgd optimizer.eps=1e-8");
  change_layouts({"data_parallel=2 zero=1", "tensor_parallel=2", "expert_parallel=2", "context_parallel=2",
                  "data_parallel=3 zero=3", "pipeline_parallel=2", "data_parallel=2 tensor_parallel=2 zero=2", ""},
                 "optimizer.name=muon");
}

TEST(LayoutChangeTest, AdaptersAndTheirFrozenBaseTravel) {
  change_layouts({"data_parallel=2 zero=3", "tensor_parallel=2", "pipeline_parallel=2", "expert_parallel=2", ""},
                 "lora.rank=2");
}

// Saved, loaded elsewhere, saved, loaded back and saved: the same files to the byte.
TEST(LayoutChangeTest, ThereAndBackIsTheSameToTheByte) {
  const TemporaryFolder folder;
  LayoutRun first(recipe_in("data_parallel=2 tensor_parallel=2 zero=3", 4));
  first.draw_weights();
  first.train(0, 2);
  first.save(folder / "a", 2);
  LayoutRun elsewhere(recipe_in("data_parallel=2 expert_parallel=2 zero=1", 4));
  elsewhere.load(checkpoint::Reader(folder / "a" / "step-00000002"));
  elsewhere.save(folder / "b", 2);
  LayoutRun back(recipe_in("data_parallel=2 tensor_parallel=2 zero=3", 4));
  back.load(checkpoint::Reader(folder / "b" / "step-00000002"));
  back.save(folder / "c", 2);
  EXPECT_TRUE(files_of(folder / "a" / "step-00000002") == files_of(folder / "c" / "step-00000002"));
  EXPECT_FALSE(files_of(folder / "a" / "step-00000002") == files_of(folder / "b" / "step-00000002"));
  // And what is trained from there is what is trained without the stop.
  EXPECT_EQ(back.train(2, 2), first.train(2, 2));
}

TEST(LayoutChangeTest, EveryByteIsSavedByOneChip) {
  const LayoutRun run(recipe_in("data_parallel=4 zero=0", 2));
  std::map<int64_t, int64_t> by_chip;
  int64_t sum = 0;
  for (const train::SavedPart& part : train::saved_parts(run.compiled())) {
    const int64_t bytes = part.box.elements() * ir::dtype_bytes(part.tensor->whole.dtype);
    by_chip[part.chip] += bytes;
    sum += bytes;
  }
  int64_t state = 0;
  for (const compile::StateTensor& tensor : run.compiled().stages[0].state)
    if (tensor.kept) state += tensor.whole.bytes();
  EXPECT_EQ(sum, state);
  EXPECT_EQ(compile::kept_bytes(run.compiled()), state);
  for (const auto& [chip, bytes] : by_chip) EXPECT_LT(bytes, state / 2) << chip;  // all four share the work
}

TEST(LayoutChangeTest, TheSnapshotIsAsLargeAsItsParts) {
  for (const char* layout :
       {"", "data_parallel=4 zero=3", "tensor_parallel=2", "pipeline_parallel=2 data_parallel=2"}) {
    const LayoutRun run(recipe_in(layout, 2));
    int64_t sum = 0;
    for (const train::SavedPart& part : train::saved_parts(run.compiled()))
      sum += part.box.elements() * ir::dtype_bytes(part.tensor->whole.dtype);
    EXPECT_EQ(compile::kept_bytes(run.compiled()), sum) << layout;
  }
}

/// No thread starts while it lives: each would need a stack beyond the address space.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_getattr_default_np(&huge);
    ::pthread_attr_setstacksize(&huge, size_t{1} << 48);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(LayoutChangeTest, WithoutAThreadTheStepWaitsForTheDisk) {
  const TemporaryFolder folder;
  LayoutRun run(recipe_in("data_parallel=2", 2));
  run.draw_weights();
  run.save(folder / "a", 1);
  {
    const NoThreads none;
    EXPECT_THROW(std::thread([] {}).join(), std::system_error);
    run.save(folder / "b", 1);
  }
  EXPECT_TRUE(files_of(folder / "a" / "step-00000001") == files_of(folder / "b" / "step-00000001"));
}

TEST(LayoutChangeTest, CheckpointsOfOtherModelsAreRefused) {
  const TemporaryFolder folder;
  const recipe::Recipe recipe = recipe_in("", 2);
  LayoutRun run(recipe);
  run.draw_weights();
  run.save(folder / "a", 0);
  const checkpoint::Reader reader(folder / "a" / "step-00000000");
  const auto refused = [&](const std::string& words) {
    LayoutRun other(recipe_in("", 2, words));
    return testing_support::problem_of(base::Code::E1205, [&] { other.load(reader); });
  };
  refused("model.vocab=300");
  refused("model.feed_forward.experts=8");
  refused("optimizer.name=sgd optimizer.eps=1e-8");
  train::require_same_model(reader.manifest(), recipe);
  recipe::Recipe other = recipe_in("", 2, "model.norm_eps=0.001");  // same tensors, another model
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1205, [&] { train::require_same_model(reader.manifest(), other); });
  EXPECT_EQ(problem.where, "model.norm_eps");
}

}  // namespace
}  // namespace megacpp
