// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/plan_report.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "megacpp/cli/planning_progress.h"
#include "megacpp/cli/print_log.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/hardware/fit/deep_tables.h"
#include "megacpp/hardware/fit/speed_advice.h"
#include "megacpp/hardware/fit/step_basis.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/plan/degrees.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/fill_slice.h"

namespace megacpp::cli {
namespace {

std::string target_name(const recipe::Recipe& recipe, const PlanWishes& wishes) {
  if (!wishes.hardware.empty()) return wishes.hardware;
  if (!recipe.hardware.target.empty()) return recipe.hardware.target;
  plan::check_layout(recipe, plan::Adjustable::recipe);
  return fmt::format("host:{}", plan::product_of_degrees(recipe.layout));
}

void add_parameters(PlanReport& report) {
  const compile::Compiled& compiled = report.estimate.compiled;
  std::vector<std::vector<blocks::Parameter>> by_stage;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage) by_stage.push_back(compiled.parameters_of(stage));
  for (const blocks::Parameter& parameter : compiled.parameters) report.parameters += ir::num_elements(parameter.shape);
  const hw::Chip device = hw::device_of(report.slice.chip);
  report.rows = plan::parameter_table(report.estimate.plan(), by_stage);
  report.stored = fit::stored_parameters(compiled, report.estimate.plan(), device);
  report.arguments = fit::argument_bytes(report.memory(), report.estimate.recipe(), device);
}

/// Single parameters are those of the deepest shallow plan.
void add_deep_parameters(PlanReport& report, const fit::ShallowPlans& shallow) {
  const hw::Chip device = hw::device_of(report.slice.chip);
  report.parameters = fit::deep_parameters(shallow);
  report.rows = fit::deep_parameter_table(shallow);
  report.stored = fit::stored_parameters(shallow.plans[2].compiled, shallow.plans[2].planned.plan(), device);
  report.arguments = fit::deep_argument_bytes(shallow, report.worst().stage, device);
}

}  // namespace

double PlanReport::tokens_per_step() const {
  const recipe::Train& train = estimate.recipe().train;
  return static_cast<double>(train.batch) * static_cast<double>(train.sequence) *
         static_cast<double>(train.micro_steps);
}

double PlanReport::tokens_per_second() const {
  const double seconds = estimate.time.seconds();
  return seconds > 0 ? tokens_per_step() / seconds : 0;
}

PlanReport make_plan_report(const recipe::Recipe& recipe, const PlanWishes& wishes) {
  PlanReport report{.slice = launch::slice_named(target_name(recipe, wishes), recipe.backend),
                    .filling = {},
                    .lane = {},
                    .catalog_note = {},
                    .estimate = {},
                    .composition = {},
                    .rows = {},
                    .stored = {},
                    .arguments = {},
                    .islands = {},
                    .crossings = {},
                    .regime = {},
                    .speed_advice = {},
                    .without_effect = {}};
  const launch::FilledRecipe fill = launch::fill_slice(recipe, report.slice);
  const recipe::Recipe& filled = fill.planned.recipe();
  report.filling = fill.changes;
  launch::UsersCatalog catalog(wishes.catalog, catalog::Access::read, print_line);
  fit::Assumptions assumptions = launch::assumptions_for(filled, report.slice, catalog);
  assumptions.most_planned_whole = fit::kMostPlannedWhole;
  assumptions.after_pass = planning_progress();
  report.estimate = fit::make_estimate(filled, assumptions);
  report.lane = fit::to_text(report.estimate.lane);
  report.without_effect = without_effect_on(report.estimate.lane.backend, filled, recipe::Use::plan);
  report.catalog_note = catalog.why_not();
  if (report.catalog_note.empty() && report.estimate.correction.samples == 0)
    report.catalog_note = "the catalog has no other measurement of this lane";
  report.composition = plan::composition(report.estimate.plan());
  if (report.estimate.shallow)
    add_deep_parameters(report, *report.estimate.shallow);
  else
    add_parameters(report);
  const ir::Mesh& mesh = report.estimate.plan().parallel.mesh;
  report.islands = fit::islands_of(report.slice, mesh);
  report.crossings = fit::crossings_of(report.estimate.recipe(), report.slice, mesh, report.estimate.time);
  report.regime = fit::regime_of(report.estimate);
  report.speed_advice = fit::speed_advice(report.estimate.time, report.estimate.plan(), filled.train);
  return report;
}

std::string verdict_text(const PlanReport& report) {
  using memory::human_bytes;
  const fit::ChipGroup& worst = report.worst();
  const fit::FitReport& fit = report.estimate.fit;
  const fit::FitVerdict verdict = fit.verdict();
  const int64_t free = worst.free_bytes().value();
  std::string text = fmt::format("{}: {} at {} needs {} of {}, {} {}", fit::fit_verdict_name(verdict), worst.place,
                                 worst.where, fit::needed_text(worst), fit::limit_text(worst),
                                 human_bytes(std::abs(free)), free < 0 ? "too much" : "free");
  if (verdict == fit::FitVerdict::close)
    text += fmt::format("; the limit is within what a compiler may reserve: {}",
                        deciding_command(report.slice, report.estimate.lane.backend));
  return text;
}

LaneCorrection peak_correction(const PlanReport& report) {
  return {report.lane, catalog::kPeakBytes, report.estimate.correction};
}

std::string correction_text(const PlanReport& report) {
  if (!report.catalog_note.empty())
    return fmt::format("Not corrected by measurements of {}: {}.", report.lane, report.catalog_note);
  return "Of the planned bytes: " + to_text(peak_correction(report)) + ".";
}

std::string reserved_text(const PlanReport& report) {
  using memory::human_bytes;
  const fit::Reservation& reserved = report.reserved();
  if (reserved.why.empty()) return "";
  const int64_t needed = report.worst().needed();
  const std::string raised =
      needed > reserved.expected ? fmt::format("; measurements of the lane raise it to {}", human_bytes(needed)) : "";
  return fmt::format("XLA is expected to reserve {} there, no less than {} and no more than {}{}:",
                     human_bytes(reserved.expected), human_bytes(reserved.least), human_bytes(reserved.most), raised);
}

report::Table reserved_table(const PlanReport& report) {
  report::Table table{.headings = {"term", ">bytes", "why"}, .rows = {}};
  for (const fit::ReservedTerm& term : report.reserved().why)
    table.rows.push_back({term.name, memory::human_bytes(term.bytes), term.sentence});
  return table;
}

std::string free_text(const fit::ChipGroup& group) {
  const int64_t free = group.free_bytes().value();
  return (free < 0 ? "-" : "") + memory::human_bytes(std::abs(free));
}

std::string step_range_text(const PlanReport& report) {
  const fit::Estimate& estimate = report.estimate;
  std::string text = fit::range_text(estimate.time, report.slice.chip);
  if (estimate.time_correction.samples == 0) return text;
  const LaneCorrection correction{report.lane, catalog::kStepSeconds, estimate.time_correction};
  return text + fmt::format(" Corrected {}: {}.", base::human_seconds(estimate.step_seconds()), to_text(correction));
}

std::string arithmetic_text(const fit::StepTime& time) {
  const double share = time.seconds() > 0 ? time.arithmetic / time.seconds() : 0;
  return fmt::format(
      "All arithmetic of a chip takes {} at its peak, {:.1f}% of the step; MFU counts the model's alone, nothing "
      "twice.",
      base::human_seconds(time.arithmetic), 100 * share);
}

report::Table links_table(const fit::StepTime& time) {
  using base::human_seconds;
  using memory::human_bytes;
  report::Table table{.headings = {"axes", "link", ">bytes", ">GB/s", ">on the wire", ">waited for", ">overlapped"},
                      .rows = {}};
  for (const fit::LinkTime& link : time.links)
    table.rows.push_back({link.axes, link.link, human_bytes(link.bytes),
                          fmt::format("{:.1f}", link.bytes_per_second / 1e9), human_seconds(link.seconds),
                          human_seconds(link.exposed), human_seconds(std::max(0.0, link.seconds - link.exposed))});
  return table;
}

report::Table islands_table(const std::vector<fit::AxisIsland>& islands) {
  report::Table table{.headings = {"axis", ">chips", "link", ">GB/s", "where"}, .rows = {}};
  for (const fit::AxisIsland& island : islands)
    table.rows.push_back({island.axis, std::to_string(island.size), island.link.name,
                          fmt::format("{:.1f}", island.link.ring.bytes_per_second / 1e9), island.where});
  return table;
}

std::string hardware_text(const hw::Slice& slice) {
  return fmt::format("{}: {} on {}, {}", slice.name, base::counted(slice.chips(), "chip"),
                     base::counted(slice.hosts(), "host"), slice.chip.title);
}

std::string step_text(const recipe::Train& train) {
  return fmt::format("{} of {} x {}, {}", base::counted(train.batch, "sequence"),
                     base::counted(train.sequence, "token"), base::counted(train.micro_steps, "micro-step"),
                     ir::dtype_name(train.precision));
}

}  // namespace megacpp::cli
