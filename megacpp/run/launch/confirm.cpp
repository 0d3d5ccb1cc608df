// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/confirm.h"

#include "megacpp/core/base/error.h"
#include "megacpp/run/data/open_source.h"
#include "megacpp/run/launch/chip_memory.h"
#include "megacpp/run/launch/oom_report.h"
#include "megacpp/run/launch/remember.h"
#include "megacpp/run/launch/start.h"
#include "megacpp/run/train/pace.h"
#include "megacpp/run/train/train.h"

namespace megacpp::launch {

namespace {

/// A few steps of the estimate, and what the catalog is told of them.
Confirmed run_estimate(const fit::Estimate& estimate, UsersCatalog& catalog) {
  const recipe::Recipe& recipe = estimate.recipe();
  const std::unique_ptr<data::TokenSource> source = data::open_source(recipe.data);
  const data::Batches batches(*source, train::batch_options(recipe));
  const StartedRun started = start(estimate);
  const std::vector<train::StepReport> reports = train::train({recipe, *started.compiled, batches, *started.run});
  const std::optional<double> seconds = train::pace_of(reports).step_seconds();
  const ChipReport worst = worst_first(*started.run).front();
  const Measured measured = measured_of("confirm", estimate, worst, seconds);
  catalog.use([&](catalog::Catalog& open) { remember_measured(open, estimate, 0, measured); });
  return {.planned_bytes = worst.memory.planned_peak_bytes,
          .measured_bytes = worst.memory.measured_peak_bytes,
          .measured_seconds = seconds};
}

}  // namespace

Confirmed confirm_on_host(const fit::Found& candidate, const fit::Assumptions& assumptions, UsersCatalog& catalog) {
  recipe::Recipe recipe = candidate.recipe;
  recipe.backend = assumptions.lane.backend;
  recipe.train.steps = kConfirmSteps;
  recipe.train.log_every = 1;
  const fit::Estimate estimate = fit::make_estimate(recipe, assumptions);
  Confirmed confirmed;
  try {
    confirmed = run_estimate(estimate, catalog);
  } catch (const memory::OutOfMemory& failure) {
    const catalog::OomReport report = make_report(estimate, failure, {});
    catalog.use([&](catalog::Catalog& open) { remember_failure(open, estimate, 0, report); });
    confirmed.planned_bytes = estimate.fit.worst().planned;
    confirmed.out_of_memory = report.oom_class + (report.chip.empty() ? "" : ", " + report.chip);
  } catch (const base::Error& failure) {
    confirmed.planned_bytes = estimate.fit.worst().planned;
    confirmed.error =
        std::string(base::code_name(failure.code())) + ": " + failure.problem().where + ": " + failure.problem().got;
  }
  confirmed.predicted_seconds = candidate.time.seconds();
  return confirmed;
}

}  // namespace megacpp::launch
