// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/remember.h"

#include "megacpp/base/utc_time.h"
#include "megacpp/cli/ground.h"
#include "megacpp/fit/lane.h"
#include "megacpp/fit/signature.h"

namespace megacpp::cli {

catalog::Outcome predicted_outcome(const fit::OnPaper& paper, size_t rung) {
  const fit::ChipGroup& worst = paper.fit.worst();
  return {.signature = fit::signature_of(paper.recipe, paper.fit.hardware),
          .at = base::utc_now(),
          .rung = static_cast<int64_t>(rung),
          .chip = worst.place,
          .predicted_bytes = worst.needed(),
          .limit_bytes = worst.limit,
          .predicted_seconds = paper.time.seconds() > 0 ? std::optional(paper.time.seconds()) : std::nullopt};
}

void remember_measured(catalog::Catalog& catalog, const fit::OnPaper& paper, const std::string& lane, size_t rung,
                       const Measured& measured) {
  catalog::Outcome outcome = predicted_outcome(paper, rung);
  outcome.stage = measured.stage;
  if (!measured.chip.empty()) outcome.chip = measured.chip;
  outcome.measured_bytes = measured.bytes;
  outcome.measured_seconds = measured.step_seconds;
  catalog.record(outcome);
  const auto sample = [&](const char* quantity, std::vector<catalog::Part> parts, double value) {
    catalog.record_calibration({.signature = outcome.signature,
                                .at = outcome.at,
                                .lane = lane,
                                .quantity = quantity,
                                .parts = std::move(parts),
                                .measured = value});
  };
  if (measured.bytes && measured.plan != nullptr)
    sample(catalog::kPeakBytes, fit::parts_of(*measured.plan), static_cast<double>(*measured.bytes));
  if (measured.step_seconds && *measured.step_seconds > 0 && paper.time.seconds() > 0)
    sample(catalog::kStepSeconds, fit::parts_of(paper.time), *measured.step_seconds);
}

void remember_compilation(catalog::Catalog& catalog, const recipe::Recipe& recipe, const hw::Slice& slice,
                          const XlaCompilation& compilation) {
  const fit::OnPaper paper = fit::plan_on_paper(recipe, ground_for(recipe, slice));
  if (const auto& failure = compilation.out_of_memory) {
    catalog::Outcome outcome = predicted_outcome(paper);
    outcome.ending = catalog::Ending::fails;
    outcome.oom_class = memory::oom_class_name(failure->cls);
    outcome.stage = "compile";
    outcome.measured_bytes = failure->used;
    catalog.record(outcome);
    return;
  }
  Measured measured{.stage = "compile", .plan = &paper.worst_memory()};
  // Without its code, which plans count beside the peak.
  if (const auto& memory = compilation.report.memory; memory && memory->peak > 0) measured.bytes = memory->peak;
  remember_measured(catalog, paper, fit::lane_name(slice, recipe.backend), 0, measured);
}

}  // namespace megacpp::cli
