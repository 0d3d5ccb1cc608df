// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/train_report.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/chip_memory.h"
#include "megacpp/cli/memory_json.h"
#include "megacpp/cli/process_memory.h"
#include "megacpp/cli/without_effect.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/core/ir/chip_name.h"
#include "megacpp/hardware/fit/regime.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/fields.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/memory/fields.h"
#include "megacpp/program/plan/print.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/launch/over_processes.h"
#include "megacpp/run/launch/regime.h"
#include "megacpp/run/train/fields.h"
#include "megacpp/run/train/pace.h"

namespace megacpp::cli {
namespace {

using base::human_seconds;

// Predictions are within 15 % where rates are those of the machine as it is now.
constexpr double kFasterThanPredicted = 1.25;

// By logged step and block. Null where the model has no experts, where the backend does not measure them, and for a
// step whose metrics are not known.
Json experts_json(const std::vector<train::StepReport>& reports) {
  const auto has_none = [](const train::StepReport& report) { return report.experts.empty(); };
  if (std::ranges::all_of(reports, has_none)) return {};
  Json steps = Json::array();
  for (const train::StepReport& report : reports)
    steps.push_back(has_none(report) ? Json() : base::record_json(report.experts));
  return steps;
}

// Which chips each process of a run over several has; empty for one.
Json places_json(const ir::Mesh& mesh, const std::vector<std::string>& hosts) {
  Json places = Json::array();
  for (const launch::ProcessPlace& place : launch::process_places(mesh, hosts))
    places.push_back({{"process", place.process}, {"host", place.host}, {"chips", place.chips}});
  return places;
}

// What was learnt, and how fast.
Json steps_json(const std::vector<train::StepReport>& reports) {
  Json losses = Json::array(), logged = Json::array();
  data::Stalls stalls;
  for (const train::StepReport& report : reports) {
    stalls.count += report.data_stalls.count;
    stalls.seconds += report.data_stalls.seconds;
    losses.push_back(base::record_json(report.loss));
    logged.push_back(report.step);
  }
  const train::Pace pace = train::pace_of(reports);
  return {{"steps", train::steps_in(reports)},
          {"logged_steps", logged},
          {"losses", losses},
          {"experts", experts_json(reports)},
          {"tokens_per_second", base::record_json(pace.tokens_per_second())},
          {"step_seconds", base::record_json(pace.step_seconds())},
          {"data_stalls", stalls.count},
          {"data_stall_seconds", stalls.seconds}};
}

// What ran, and where its time went.
Json programs_json(const TrainedRun& trained) {
  const compile::Compiled& compiled = trained.compiled();
  const runtime::Counters& counters = trained.trained.measures.counters;
  const double predicted = trained.launch.estimate().time.seconds();
  const auto micro_steps = static_cast<double>(trained.launch.recipe().train.micro_steps);
  const fit::Regime regime = launch::regime_of(trained.launch, trained.trained);
  return {{"path", trained.run().path()},
          {"compile_seconds", compiled.compile_seconds()},
          {"verify_seconds", compiled.verify_seconds()},
          {"backend_compile_seconds", counters.compile_seconds},
          {"counters", base::record_json(counters)},
          {"late_compiles", trained.trained.late_programs.compiles},
          {"late_cache_hits", trained.trained.late_programs.cache_hits},
          {"flops_per_micro_step", compiled.flops_per_step() / micro_steps},
          {"fallbacks", static_cast<int64_t>(compiled.fallbacks.size())},
          {"predicted_step_seconds", predicted > 0 ? Json(predicted) : Json()},
          {"measured_parts", base::record_json(launch::measured_parts(trained.trained))},
          {"op_seconds", base::record_json(trained.run().op_seconds())},
          {"regime", fit::regime_name(regime.kind)},
          {"regime_because", regime.because}};
}

Json peaks_json(const TrainedRun& trained) {
  const std::vector<launch::ChipReport>& chips = trained.trained.measures.chips;
  const launch::ChipReport& worst = chips.front();
  const ir::Mesh& mesh = trained.compiled().mesh;
  return {{"planned_peak_bytes", base::record_json(worst.memory.planned_peak_bytes)},
          {"measured_peak_bytes", base::record_json(worst.memory.measured_peak_bytes)},
          {"peak_chip", ir::chip_name(worst.chip, mesh)},
          {"chips", to_json(chips, mesh)},
          {"process", to_json(process_bytes(trained.launch.estimate(), trained.run()))}};
}

Json checkpoints_json(const TrainedRun& trained) {
  return {{"saves", trained.trained.saves},
          {"snapshot_bytes", trained.launch.recipe().checkpoint.saves() ? compile::kept_bytes(trained.compiled()) : 0},
          {"blocked_seconds", trained.trained.blocked_seconds},
          {"loaded_bytes", trained.trained.loaded_bytes},
          {"read_bytes", trained.trained.read_bytes}};
}

std::string prediction_text(const fit::Estimate& estimate, double seconds) {
  const double predicted = estimate.time.seconds();
  if (!(predicted > 0)) return fmt::format("a step took {}\n", human_seconds(seconds));
  const bool is_here = estimate.fit.hardware.starts_with("host");
  return fmt::format("a step took {}, {} predicted ({:+.0f} %){}\n", human_seconds(seconds), human_seconds(predicted),
                     100 * (predicted / seconds - 1),
                     is_here && predicted > kFasterThanPredicted * seconds
                         ? ": rates of this machine were measured under load; run: megacpp hw measure"
                         : "");
}

}  // namespace

std::string parts_text(const TrainedRun& trained) {
  const std::optional<runtime::StepParts> parts = launch::measured_parts(trained.trained);
  if (!parts) return "";
  std::string text;
  const auto add = [&](const char* part, double seconds) {
    text += fmt::format("{:<22} {:>9.3f} s  {:>3.0f} % of a step\n", part, seconds, 100 * seconds / parts->seconds());
  };
  add("arithmetic", parts->arithmetic);
  add("memory", parts->memory);
  add("links", parts->links);
  add("bubble", parts->bubble);
  add("other", parts->other);
  return text;
}

std::string train_text(const TrainedRun& trained) {
  const launch::Launch& launch = trained.launch;
  const compile::Compiled& compiled = trained.compiled();
  const std::vector<train::StepReport>& reports = trained.reports();
  const runtime::Executable& run = trained.run();
  if (reports.empty()) return "";
  const launch::ChipReport& worst = trained.trained.measures.chips.front();
  const train::Pace pace = train::pace_of(reports);
  const std::string where =
      compiled.mesh.chips() > 1 ? fmt::format(" (the worst: {})", ir::chip_name(worst.chip, compiled.mesh)) : "";
  const std::string measured = worst.memory.measured_peak_bytes
                                   ? fmt::format("{} bytes measured", *worst.memory.measured_peak_bytes)
                                   : "not measured by this plugin";
  const std::string planned =
      worst.memory.planned_peak_bytes ? fmt::format("{} planned", *worst.memory.planned_peak_bytes) : "not planned";
  const std::optional<double> first = reports.front().loss, last = reports.back().loss, rate = pace.tokens_per_second();
  std::string text = fmt::format("{}: {}{}{}, peak {}, {}{}\n", base::printable_in_line(launch.recipe().name),
                                 base::counted(train::steps_in(reports), "step"),
                                 first && last ? fmt::format(", loss {:.4f} -> {:.4f}", *first, *last) : "",
                                 rate ? fmt::format(", {:.0f} tokens/s", *rate) : "", measured, planned, where);
  for (const runtime::TierUse& use : worst.memory.away)
    text += fmt::format("in {} {} bytes of that chip measured, {} planned\n", ir::record(use.tier).what,
                        use.measured_bytes, use.planned_bytes);
  if (const auto seconds = pace.step_seconds()) text += prediction_text(launch.estimate(), *seconds);
  text += "regime: " + to_text(launch::regime_of(launch, trained.trained)) + "\n";
  if (const auto process = process_bytes(launch.estimate(), run)) text += to_text(*process);
  return text;
}

Json train_json(const TrainedRun& trained) {
  const launch::Launch& launch = trained.launch;
  const recipe::Recipe& recipe = launch.recipe();
  Json summary = {{"name", recipe.name},
                  {"pattern", recipe.model.pattern},
                  {"first_step", trained.trained.first_step},
                  {"rung", static_cast<int64_t>(launch.rung())},
                  {"changes", fit::to_text(launch.changes())},
                  {"changes_experiment", launch.changes_experiment()},
                  {"without_effect", to_json(without_effect(recipe))},
                  {"run_directory", trained.directory.path().string()},
                  {"checkpoints", checkpoints_json(trained)},
                  {"receipt_seconds", trained.receipt_seconds},
                  {"lineage", lineage::to_json(launch.lineage())},
                  {"recipe", recipe::print(recipe)}};
  for (const Json& part : {steps_json(trained.reports()), programs_json(trained), peaks_json(trained)})
    summary.update(part);
  if (const auto& settings = runtime::backend_named(recipe.backend).settings_json)
    summary.update(settings(recipe::run_request(recipe)));
  return summary;
}

Json run_plan_json(launch::Launch& launch) {
  const fit::Estimate& estimate = launch.estimate();
  Json groups = Json::array();
  for (const fit::ChipGroup& group : estimate.fit.groups) {
    const memory::MemoryPlan& plan = estimate.compiled.stages[group.stage].memory;
    groups.push_back({{"chip", group.chip},
                      {"chips", group.chips},
                      {"place", group.place},
                      {"planned_bytes", group.planned},
                      {"needed_bytes", group.needed()},
                      {"limit_bytes", base::record_json(group.limit.bytes)},
                      {"state_bytes", plan.state_bytes},
                      {"memory", base::record_json(plan.items)},
                      {"largest", base::record_json(plan.largest)}});
  }
  return {{"name", estimate.recipe().name},
          {"hardware", estimate.fit.hardware},
          {"mesh", ir::to_string(estimate.plan().parallel.mesh)},
          {"processes", places_json(estimate.plan().parallel.mesh, launch.agreement().hosts())},
          {"layout", plan::layout_line(estimate.plan())},
          {"rung", static_cast<int64_t>(launch.rung())},
          {"changes", fit::to_text(launch.changes())},
          {"fits", estimate.fit.fits()},
          {"verdict", fit::fit_verdict_name(estimate.fit.verdict())},
          {"groups", groups},
          {"host", host_json(estimate.fit)},
          {"predicted_step_seconds", base::record_json(estimate.time.seconds())},
          {"lineage", lineage::to_json(launch.lineage())}};
}

}  // namespace megacpp::cli
