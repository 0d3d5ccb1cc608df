// SPDX-License-Identifier: Apache-2.0
// A small model of every family that is trained, saved and loaded step by step, in any layout and on any backend.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/load_state.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/state_saver.h"
#include "megacpp/run/train/train.h"
#include "tests/support/relative_error.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {

// Every family in five blocks; clipping at work from the first step; a word without a dot is a key of the layout.
inline constexpr const char* kSmallModel =
    "model.pattern=AEMER model.depth=5 model.mamba.chunk=8 model.z_loss=0.001 train.batch=4 train.sequence=16 "
    "train.threads=1 train.micro_steps=2 train.log_every=1 train.seed=7 optimizer.warmup_steps=2 optimizer.lr=0.001 "
    "optimizer.clip=0.5 optimizer.eps=1e-6 ";

inline recipe::Recipe recipe_in(const std::string& layout, int64_t steps, const std::string& more = "") {
  std::vector<std::string> overrides = {"train.steps=" + std::to_string(steps)};
  std::istringstream words(kSmallModel + more + " " + layout);
  for (std::string word; words >> word;)
    overrides.push_back(word.substr(0, word.find('=')).find('.') == std::string::npos ? "layout." + word : word);
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", overrides);
}

/// A run in one layout, without weights yet.
class LayoutRun {
 public:
  explicit LayoutRun(recipe::Recipe recipe, const runtime::Backend& backend = runtime::backend_named("cpu"))
      : recipe_(on_backend(std::move(recipe), backend)),
        compiled_(compile_for(recipe_, backend)),
        run_(runtime::load_on(backend, recipe::run_request(recipe_), compiled_,
                              runtime::load_options(recipe::run_request(recipe_), compiled_.mesh.chips()))) {}

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
    data::TextCorpus corpus;
    corpus.document_begins = {0};
    for (size_t i = 0; i < 4096; ++i) corpus.bytes.push_back(static_cast<uint8_t>('a' + i * i % 19));
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
  static recipe::Recipe on_backend(recipe::Recipe recipe, const runtime::Backend& backend) {
    recipe.backend = backend.name;
    return recipe;
  }
  static compile::Compiled compile_for(const recipe::Recipe& recipe, const runtime::Backend& backend) {
    const plan::Plan plan = plan::make_plan(recipe);
    return compile::compile_training(plan,
                                     runtime::target_on(backend, recipe::run_request(recipe), plan.parallel.mesh));
  }

  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
};

inline std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = base::read_file(entry.path());
  return files;
}

/// Every tensor whole, weights and optimizer state alike.
inline std::map<std::string, std::vector<std::byte>> tensors_of(const checkpoint::Reader& reader) {
  std::map<std::string, std::vector<std::byte>> tensors;
  for (const auto& [name, tensor] : reader.manifest().tensors)
    tensors[name] = reader.read_whole(name, tensor.whole.dtype);
  return tensors;
}

/// The same tensors, equal but for the order of sums. Optimizer state may be further off: where two experts score
/// almost alike another order may choose the other one, of which a moment shows more than its weight.
inline void expect_near(const checkpoint::Reader& got, const checkpoint::Reader& wanted) {
  const auto floats = [](const checkpoint::Reader& reader, const std::string& name) {
    const std::vector<std::byte> bytes = reader.read_whole(name, ir::DType::f32);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  ASSERT_EQ(got.manifest().tensors.size(), wanted.manifest().tensors.size());
  for (const auto& [name, tensor] : wanted.manifest().tensors) {
    ASSERT_TRUE(got.manifest().tensors.contains(name)) << name;
    if (tensor.whole.dtype != ir::DType::f32) continue;
    EXPECT_LE(relative_error(floats(got, name), floats(wanted, name)), tensor.is_weight ? 1e-3 : 1e-2) << name;
  }
}

/// Where one step of a run is trained.
struct Leg {
  std::string layout;
  runtime::Backend backend = runtime::backend_named("cpu");
};

/// Trains one step on each leg: it loads what the one before saved, saves it again before it computes anything, and
/// trains. The schedule is that of the whole run; losses, weights and optimizer state are those of one chip of the CPU
/// backend that never stopped.
inline void train_through(const std::vector<Leg>& legs, const std::string& more = "") {
  const TemporaryFolder folder;
  const auto steps = static_cast<int64_t>(legs.size());
  LayoutRun one(recipe_in("", steps, more));
  one.draw_weights();
  const std::vector<double> wanted = one.train(0, steps);
  one.save(folder / "one", steps);
  const checkpoint::Store trained(folder / "trained"), again(folder / "again");
  for (int64_t step = 0; step < steps; ++step) {
    const Leg& leg = legs[static_cast<size_t>(step)];
    SCOPED_TRACE(leg.backend.name + " " + leg.layout);
    LayoutRun run(recipe_in(leg.layout, steps, more), leg.backend);
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
  const checkpoint::Store unmoved(folder / "one");
  expect_near(checkpoint::Reader(trained.path_of(steps)), checkpoint::Reader(unmoved.path_of(steps)));
}

}  // namespace megacpp::testing_support
