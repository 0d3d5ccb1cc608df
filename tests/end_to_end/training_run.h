// SPDX-License-Identifier: Apache-2.0
// A small model in a layout, compiled and loaded on the CPU backend with a fixed text: what a process has of its run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"

namespace megacpp::testing_support {

/// Four blocks of attention and feed-forward, three steps of two micro-steps, every step logged.
recipe::Recipe small_training_recipe(const recipe::Layout& layout);
data::TextCorpus small_corpus();

class TrainingRun {
 public:
  /// `limits` in bytes by chip; empty: none.
  explicit TrainingRun(const recipe::Layout& layout,
                       const collectives::Transport& transport = collectives::inproc_transport(),
                       const std::vector<int64_t>& limits = {});

  std::vector<train::StepReport> train(const train::Options& options = {});
  /// Of every step; none on a process without the chip that makes them.
  std::vector<double> losses();

  recipe::Recipe& recipe() { return recipe_; }
  const compile::Compiled& compiled() const { return compiled_; }
  runtime::Executable& executable() { return *executable_; }
  train::RunState state() { return {compiled_, *executable_}; }

 private:
  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> executable_;
  data::TextCorpus corpus_;
};

}  // namespace megacpp::testing_support
