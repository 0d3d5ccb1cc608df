// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/training_run.h"

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"

namespace megacpp::testing_support {

recipe::Recipe small_training_recipe(const recipe::Layout& layout) {
  recipe::Recipe recipe;
  recipe.name = "small";
  recipe.model = {.name = "small", .pattern = "AE", .depth = 4, .hidden = 32, .vocab = 256};
  recipe.model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 2, .head_dim = 8};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 48};
  recipe.train = {.batch = 4, .sequence = 16, .micro_steps = 2, .steps = 3, .log_every = 1};
  recipe.train.seed = 7;
  recipe.layout = layout;
  return recipe;
}

data::TextCorpus small_corpus() {
  data::TextCorpus corpus;
  corpus.document_begins = {0};
  for (size_t i = 0; i < 4096; ++i) corpus.bytes.push_back(static_cast<uint8_t>('a' + i * i % 19));
  return corpus;
}

TrainingRun::TrainingRun(const recipe::Layout& layout, const collectives::Transport& transport,
                         const std::vector<int64_t>& limits)
    : recipe_(small_training_recipe(layout)),
      compiled_(compile::compile_training(plan::make_plan(recipe_), runtime::cpu::cpu_target(1, transport))),
      executable_(runtime::cpu::load(compiled_, {.threads = 1, .transport = transport, .limits = limits})),
      corpus_(small_corpus()) {
  state().initialise_weights(7);
}

std::vector<train::StepReport> TrainingRun::train(const train::Options& options) {
  const data::Batches batches(corpus_, train::batch_options(recipe_));
  return train::train({recipe_, compiled_, batches, *executable_}, options);
}

std::vector<double> TrainingRun::losses() {
  std::vector<double> losses;
  for (const train::StepReport& report : train())
    if (report.loss) losses.push_back(*report.loss);
  return losses;
}

}  // namespace megacpp::testing_support
