// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/fit_confirm.h"

#include <algorithm>

#include "megacpp/cli/backend.h"
#include "megacpp/cli/chip_memory.h"
#include "megacpp/data/text_corpus.h"
#include "megacpp/train/confirm_start.h"
#include "megacpp/train/run_state.h"
#include "megacpp/train/train.h"

namespace megacpp::cli {

Confirmed confirm_on_host(const fit::Found& candidate) {
  recipe::Recipe recipe = candidate.recipe;
  recipe.backend = "cpu";
  recipe.train.steps = kConfirmSteps;
  const plan::Plan plan = plan::make_plan(recipe);
  const data::TextCorpus corpus = data::load_text(recipe.data.text);
  const data::Batches batches(corpus, {.batch = recipe.train.batch,
                                       .sequence = recipe.train.sequence,
                                       .micro_steps = recipe.train.micro_steps,
                                       .vocab = recipe.model.vocab,
                                       .seed = static_cast<uint64_t>(recipe.train.seed)});
  const compile::Compiled compiled = compile::compile_training(recipe, plan, target_for(recipe, plan.parallel.mesh));
  const auto run = load_for(
      recipe, compiled, {.threads = threads_for(recipe), .wait_limit = std::chrono::seconds(recipe.train.wait_limit)});
  train::confirm_start(plan, compiled, *run);
  train::RunState(compiled, *run).initialise_weights(static_cast<uint64_t>(recipe.train.seed));
  const std::vector<train::StepReport> reports = train::train(recipe, compiled, batches, *run);
  std::vector<double> seconds;
  for (size_t i = 1; i < reports.size(); ++i) seconds.push_back(reports[i].seconds);
  const ChipReport worst = worst_first(*run).front();
  return {.planned_bytes = worst.memory.planned_peak_bytes,
          .measured_bytes = worst.memory.measured_peak_bytes,
          .predicted_seconds = candidate.time.seconds(),
          .measured_seconds = std::ranges::min(seconds)};
}

}  // namespace megacpp::cli
