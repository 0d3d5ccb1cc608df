// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/remember.h"

#include "megacpp/core/base/utc_time.h"
#include "megacpp/core/ir/chip_name.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::launch {
namespace {

/// The prediction of the worst chip, to be completed by how it went.
catalog::Outcome predicted_outcome(const fit::Estimate& estimate, size_t rung) {
  const fit::ChipGroup& worst = estimate.fit.worst();
  const double seconds = estimate.time.seconds();
  return {.signature = estimate.signature,
          .at = base::utc_now(),
          .rung = static_cast<int64_t>(rung),
          .chip = worst.place,
          .predicted_bytes = worst.needed(),
          .limit_bytes = worst.limit.bytes,
          .predicted_seconds = seconds > 0 ? std::optional(seconds) : std::nullopt};
}

}  // namespace

Measured measured_of(std::string phase, const fit::Estimate& estimate, const ChipReport& worst,
                     std::optional<double> step_seconds) {
  return {.phase = std::move(phase),
          .chip = ir::chip_name(worst.chip, estimate.compiled.mesh),
          .plan = &estimate.compiled.programs_of(worst.chip).memory,
          .bytes = worst.memory.measured_peak_bytes,
          .step_seconds = step_seconds};
}

void remember_measured(catalog::Catalog& catalog, const fit::Estimate& estimate, size_t rung,
                       const Measured& measured) {
  catalog::Outcome outcome = predicted_outcome(estimate, rung);
  outcome.phase = measured.phase;
  if (!measured.chip.empty()) outcome.chip = measured.chip;
  outcome.measured_bytes = measured.bytes;
  outcome.measured_seconds = measured.step_seconds;
  catalog.record(outcome);
  const auto sample = [&](const char* quantity, std::vector<catalog::Part> parts, double value) {
    catalog.record_calibration({.signature = outcome.signature,
                                .at = outcome.at,
                                .lane = fit::to_text(estimate.lane),
                                .quantity = quantity,
                                .parts = std::move(parts),
                                .measured = value});
  };
  if (measured.bytes && measured.plan != nullptr)
    sample(catalog::kPeakBytes, fit::parts_of(*measured.plan, fit::letter_families(estimate.recipe().model)),
           static_cast<double>(*measured.bytes));
  if (measured.step_seconds && *measured.step_seconds > 0 && estimate.time.seconds() > 0)
    sample(catalog::kStepSeconds, fit::parts_of(estimate.time), *measured.step_seconds);
}

void remember_failure(catalog::Catalog& catalog, const fit::Estimate& estimate, size_t rung,
                      const catalog::OomReport& report) {
  catalog::Outcome outcome = predicted_outcome(estimate, rung);
  outcome.fits = false;
  outcome.oom_class = report.oom_class;
  outcome.phase = report.step >= 0 ? "run " + memory::steps_text(report.first_step, report.step) : report.phase;
  if (!report.chip.empty()) outcome.chip = report.chip;
  if (report.limit_bytes) outcome.limit_bytes = report.limit_bytes;
  // Only a compiler has measured the whole program; plans and faults have measured nothing.
  const bool is_compilers = report.oom_class == memory::oom_class_name(memory::OomClass::compile);
  if (is_compilers && !report.message.empty()) outcome.measured_bytes = report.wanted_bytes;
  outcome.note = report.ending;
  outcome.report = report;
  catalog.record(outcome);
}

}  // namespace megacpp::launch
