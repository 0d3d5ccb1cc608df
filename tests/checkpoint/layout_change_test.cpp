// SPDX-License-Identifier: Apache-2.0
// One training run that changes its layout after every step: each layout loads what the one before saved, saves it
// again before it computes anything, and trains one step. Losses are those of one chip that never stopped.
#include <gtest/gtest.h>
#include <pthread.h>

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "megacpp/base/file.h"
#include "megacpp/checkpoint/reader.h"
#include "megacpp/data/batches.h"
#include "megacpp/data/text_corpus.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/train/load_state.h"
#include "megacpp/train/run_state.h"
#include "megacpp/train/state_saver.h"
#include "megacpp/train/train.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp {
namespace {

using testing_support::TemporaryFolder;

data::TextCorpus text() {
  data::TextCorpus corpus;
  corpus.document_begins = {0};
  for (size_t i = 0; i < 4096; ++i) corpus.bytes.push_back(static_cast<uint8_t>('a' + i * i % 19));
  return corpus;
}

// Every family in five blocks; clipping at work from the first step; a word without a dot is a key of the layout.
constexpr const char* kSmallModel =
    "model.pattern=AEMER model.depth=5 model.mamba.chunk=8 model.z_loss=0.001 train.batch=4 train.sequence=16 "
    "train.threads=1 train.micro_steps=2 train.log_every=1 train.seed=7 optimizer.warmup_steps=2 optimizer.lr=0.001 "
    "optimizer.clip=0.5 optimizer.eps=1e-6 ";

recipe::Recipe recipe_in(const std::string& layout, int64_t steps, const std::string& more = "") {
  std::vector<std::string> overrides = {"train.steps=" + std::to_string(steps)};
  std::istringstream words(kSmallModel + more + " " + layout);
  for (std::string word; words >> word;)
    overrides.push_back(word.substr(0, word.find('=')).find('.') == std::string::npos ? "layout." + word : word);
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", overrides);
}

/// A run in one layout, without weights yet.
class LayoutRun {
 public:
  explicit LayoutRun(recipe::Recipe recipe)
      : recipe_(std::move(recipe)),
        compiled_(compile::compile_training(recipe_, runtime::cpu::cpu_target(1, collectives::inproc_transport()))),
        run_(runtime::cpu::load(compiled_, {.threads = 1})) {}

  void draw_weights() { train::RunState(compiled_, *run_).initialise_weights(7); }
  void load(const checkpoint::Reader& reader) { train::load_state(reader, compiled_, *run_); }
  void save(const std::filesystem::path& folder, int64_t step) {
    train::StateSaver saver(compiled_, *run_,
                            {.store = checkpoint::Store(folder),
                             .header = train::manifest_header(recipe_),
                             .samples_per_step = recipe_.train.batch * recipe_.train.micro_steps});
    saver.save(step);
    saver.finish();
  }
  /// The losses of so many steps from `first_step` on.
  std::vector<double> train(int64_t first_step, int64_t count) {
    const data::TextCorpus corpus = text();
    const data::Batches batches(corpus, train::batch_options(recipe_));
    std::vector<double> losses;
    for (const train::StepReport& report : train::train(
             {.recipe = recipe_, .compiled = compiled_, .batches = batches, .run = *run_, .first_step = first_step},
             {.should_stop = [&count] { return count-- == 0; }}))
      losses.push_back(report.loss.value());
    return losses;
  }

  const compile::Compiled& compiled() const { return compiled_; }

 private:
  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
};

/// Every tensor whole, weights and optimizer state alike.
std::map<std::string, std::vector<std::byte>> tensors_of(const checkpoint::Reader& reader) {
  std::map<std::string, std::vector<std::byte>> tensors;
  for (const auto& [name, tensor] : reader.manifest().tensors)
    tensors[name] = reader.read_whole(name, tensor.whole.dtype);
  return tensors;
}

std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = base::read_file(entry.path());
  return files;
}

/// Trains step after step, each in the next layout. The schedule is that of the whole run.
void train_through(const std::vector<std::string>& layouts, const std::string& more = "") {
  const TemporaryFolder folder;
  const auto steps = static_cast<int64_t>(layouts.size());
  LayoutRun one(recipe_in("", steps, more));
  one.draw_weights();
  const std::vector<double> wanted = one.train(0, steps);
  const checkpoint::Store trained(folder / "trained"), again(folder / "again");
  for (int64_t step = 0; step < steps; ++step) {
    const std::string& layout = layouts[static_cast<size_t>(step)];
    SCOPED_TRACE(layout);
    LayoutRun run(recipe_in(layout, steps, more));
    if (step == 0) {
      run.draw_weights();
    } else {
      const checkpoint::Reader reader(trained.path_of(step));
      run.load(reader);
      // Checksums once, and each byte into one buffer at most.
      EXPECT_EQ(reader.bytes_checked(), reader.manifest().bytes());
      EXPECT_LE(reader.bytes_copied(), reader.manifest().bytes());
      run.save(again.folder(), step);
      EXPECT_TRUE(tensors_of(checkpoint::Reader(again.path_of(step))) == tensors_of(reader));
    }
    const std::vector<double> losses = run.train(step, 1);
    ASSERT_EQ(losses.size(), 1u);
    EXPECT_NEAR(losses[0] / wanted[static_cast<size_t>(step)], 1.0, 1e-4);
    run.save(trained.folder(), step + 1);
  }
}

TEST(LayoutChangeTest, ARunGoesOnInAnyOtherLayout) {
  train_through({"", "data_parallel=2", "tensor_parallel=2", "expert_parallel=2", "context_parallel=2",
                 "data_parallel=4 zero=0", "data_parallel=3 zero=1", "data_parallel=4 zero=2", "data_parallel=3 zero=3",
                 "tensor_parallel=4 sequence_parallel=false", "data_parallel=2 tensor_parallel=2 policy=fsdp",
                 "data_parallel=2 tensor_parallel=2 policy=megatron", "expert_parallel=2 tensor_parallel=2",
                 "pipeline_parallel=2", "pipeline_parallel=2 data_parallel=2 zero=1",
                 "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
                 "data_parallel=2 expert_parallel=2 zero=3", "pipeline_parallel=2 tensor_parallel=2", ""});
}

TEST(LayoutChangeTest, TiedWeightsAreSavedOnceFromEveryStage) {
  train_through({"pipeline_parallel=2", "tensor_parallel=4", "pipeline_parallel=3", "data_parallel=3 zero=3", ""},
                "model.tie_embeddings=true model.vocab=259 train.micro_steps=4");
}

TEST(LayoutChangeTest, StateOfAnotherOptimizerTravelsToo) {
  train_through({"data_parallel=2 zero=1", "tensor_parallel=2", "pipeline_parallel=2", ""},
                "optimizer.name=sgd optimizer.eps=1e-8");
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
  EXPECT_EQ(train::snapshot_bytes(run.compiled()), state);
  for (const auto& [chip, bytes] : by_chip) EXPECT_LT(bytes, state / 2) << chip;  // all four share the work
}

TEST(LayoutChangeTest, TheSnapshotIsAsLargeAsItsParts) {
  for (const char* layout :
       {"", "data_parallel=4 zero=3", "tensor_parallel=2", "pipeline_parallel=2 data_parallel=2"}) {
    const LayoutRun run(recipe_in(layout, 2));
    int64_t sum = 0;
    for (const train::SavedPart& part : train::saved_parts(run.compiled()))
      sum += part.box.elements() * ir::dtype_bytes(part.tensor->whole.dtype);
    EXPECT_EQ(train::snapshot_bytes(run.compiled()), sum) << layout;
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
