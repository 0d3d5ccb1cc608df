// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/confirm.h"

#include "megacpp/data/text_corpus.h"
#include "megacpp/fit/lane.h"
#include "megacpp/launch/chip_memory.h"
#include "megacpp/launch/remember.h"
#include "megacpp/launch/start.h"
#include "megacpp/train/pace.h"
#include "megacpp/train/train.h"

namespace megacpp::launch {

Confirmed confirm_on_host(const fit::Found& candidate, const fit::Assumptions& assumptions, UsersCatalog& catalog) {
  recipe::Recipe recipe = candidate.recipe;
  recipe.backend = "cpu";
  recipe.train.steps = kConfirmSteps;
  recipe.train.log_every = 1;
  const fit::Estimate estimate = fit::make_estimate(recipe, assumptions);
  const data::TextCorpus corpus = data::load_text(recipe.data.text);
  const data::Batches batches(corpus, train::batch_options(recipe));
  const StartedRun started = start(estimate);
  const std::vector<train::StepReport> reports = train::train({recipe, *started.compiled, batches, *started.run});
  const train::Pace pace = train::pace_of(reports);
  const ChipReport worst = worst_first(*started.run).front();
  const Measured measured = measured_of("confirm", estimate, *started.run, pace.step_seconds());
  catalog.use([&](catalog::Catalog& open) {
    remember_measured(open, estimate, fit::lane_name(assumptions.slice, recipe.backend), 0, measured);
  });
  return {.planned_bytes = worst.memory.planned_peak_bytes.value(),
          .measured_bytes = worst.memory.measured_peak_bytes.value(),
          .predicted_seconds = candidate.time.seconds(),
          .measured_seconds = pace.step_seconds().value()};
}

}  // namespace megacpp::launch
