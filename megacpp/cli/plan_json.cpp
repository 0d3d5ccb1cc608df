// SPDX-License-Identifier: Apache-2.0
// A plan for programs: all that the text says, and every parameter by itself.

#include <nlohmann/json.hpp>

#include "megacpp/cli/chip_memory.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/layout_report.h"
#include "megacpp/cli/memory_json.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/hardware/fit/fields.h"
#include "megacpp/hardware/fit/step_basis.h"
#include "megacpp/program/memory/fields.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/plan/print.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::cli {
namespace {

Json hardware_json(const PlanReport& r) {
  return {{"name", r.slice.name},
          {"chip", r.slice.chip.name},
          {"kind", hw::to_string(r.slice.chip.kind)},
          {"chips", r.slice.chips()},
          {"devices", r.slice.devices()},
          {"hosts", r.slice.hosts()},
          {"lane", r.lane}};
}

Json changes_json(const plan::Changes& changes) {
  Json json = Json::object();
  for (const plan::Change& change : changes) json[change.key] = change.value;
  return json;
}

// Every family's level, and why where it was left to planning.
Json recompute_json(const fit::Estimate& estimate) {
  Json json = Json::object();
  for (const char letter : recipe::recompute_letters(estimate.recipe().model))
    json[recipe::recompute_key(letter)] = {{"level", base::text_of(recipe::recompute_level(estimate.recipe(), letter))},
                                           {"why", Json()}};
  for (const fit::RecomputeChoice& choice : estimate.recompute)
    json[recipe::recompute_key(choice.letter)]["why"] = choice.why;
  return json;
}

// Of blocks that repeat: the depths that were compiled. Null where the whole model was.
Json planned_once_json(const std::optional<fit::ShallowPlans>& shallow) {
  if (!shallow) return {};
  return {{"depths", shallow->depths.depths}, {"period", shallow->depths.period}, {"text", to_text(shallow->depths)}};
}

Json gates_json() {
  Json json = Json::array();
  for (const base::Code code : plan::gate_codes())
    json.push_back(Json{{"code", base::code_name(code)}, {"refuses", base::code_title(code)}, {"passed", true}});
  return json;
}

Json group_json(const PlanReport& r, const fit::ChipGroup& group) {
  const int64_t slice_chip = group.chip / r.slice.chip.devices;
  const memory::MemoryPlan& plan = r.estimate.compiled.stages[group.stage].memory;
  return {{"chip", group.chip},
          {"chips", group.chips},
          {"stage", group.stage},
          {"coordinates", coordinates_json(group.chip, r.estimate.compiled.mesh)},
          {"slice_coordinates", r.slice.coordinates(slice_chip)},
          {"host", r.slice.host_name(slice_chip)},
          {"planned_bytes", group.planned},
          {"corrected_bytes", group.corrected},
          {"code_bytes", group.reservation.code},
          {"needed_bytes", group.needed()},
          {"limit_bytes", base::record_json(group.limit.bytes)},
          {"free_bytes", base::record_json(group.free_bytes())},
          {"least_needed_bytes", group.reservation.least},
          {"most_needed_bytes", group.reservation.most},
          {"verdict", fit::fit_verdict_name(group.verdict())},
          {"state_bytes", plan.state_bytes},
          {"host_bytes", plan.of_host().bytes},
          {"padding_bytes", plan.padding_bytes},
          {"peak_program", plan.peak_program},
          {"memory", base::record_json(plan.items)},
          {"largest", base::record_json(plan.largest)}};
}

Json correction_json(const PlanReport& r) {
  Json json = to_json(peak_correction(r));
  json["note"] = r.catalog_note;
  return json;
}

/// Null where the plan is what is reserved.
Json reserved_json(const fit::Reservation& reserved) {
  if (reserved.why.empty()) return {};
  return {{"bytes", reserved.expected},   {"least_bytes", reserved.least}, {"most_bytes", reserved.most},
          {"peak_bytes", reserved.alive}, {"code_bytes", reserved.code},   {"terms", base::record_json(reserved.why)}};
}

Json time_json(const PlanReport& r) {
  const fit::StepTime& time = r.estimate.time;
  const catalog::Correction& correction = r.estimate.time_correction;
  return {{"step_seconds", time.seconds()},
          {"basis", fit::basis_of_times(r.slice.chip, r.estimate.recipe())},
          {"limit_seconds", time.limit},
          {"least_seconds", time.range.least},
          {"most_seconds", base::record_json(time.range.most)},
          {"corrected_seconds", correction.samples > 0 ? Json(r.estimate.step_seconds()) : Json()},
          {"compute_seconds", time.compute},
          {"memory_seconds", time.memory},
          {"exposed_seconds", time.exposed},
          {"bubble_seconds", time.bubble},
          {"overlapped_seconds", time.overlapped},
          {"arithmetic_seconds", time.arithmetic},
          {"ops", base::record_json(time.ops)},
          {"tokens_per_step", r.tokens_per_step()},
          {"tokens_per_second", r.tokens_per_second()},
          {"mfu", time.mfu},
          {"bound_by", fit::part_name(time.largest())},
          {"regime", fit::regime_name(r.regime.kind)},
          {"regime_because", r.regime.because},
          {"speed_advice", r.speed_advice}};
}

}  // namespace

Json plan_json(const PlanReport& r) {
  const plan::Plan& plan = r.estimate.plan();
  Json groups = Json::array();
  for (const fit::ChipGroup& group : r.estimate.fit.groups) groups.push_back(group_json(r, group));
  const recipe::Recipe& recipe = r.estimate.recipe();
  return {{"name", recipe.name},
          {"pattern", recipe.model.pattern},
          {"depth", recipe.model.depth},
          {"parameter_count", r.parameters},
          {"batch", recipe.train.batch},
          {"sequence", recipe.train.sequence},
          {"micro_steps", recipe.train.micro_steps},
          {"hardware", hardware_json(r)},
          {"mesh", to_string(plan.parallel.mesh)},
          {"chips", plan.chips},
          {"layout", plan::layout_line(plan)},
          {"resolved_layout", resolved_layout_json(r.estimate.planned)},
          {"changed_to_fill", changes_json(r.filling)},
          {"without_effect", to_json(r.without_effect)},
          {"recompute", recompute_json(r.estimate)},
          {"looped_bytes", r.estimate.is_unrolled() ? Json(r.estimate.loops->looped_bytes) : Json()},
          {"planned_once", planned_once_json(r.estimate.shallow)},
          {"fits", r.estimate.fit.fits()},
          {"verdict", fit::fit_verdict_name(r.estimate.fit.verdict())},
          {"groups", groups},
          {"mean_needed_bytes", r.estimate.fit.mean},
          {"host", host_json(r.estimate.fit)},
          {"correction", correction_json(r)},
          {"composition", composition_json(r.composition)},
          {"gates", gates_json()},
          {"axes", base::record_json(r.islands)},
          {"crossings", base::record_json(r.crossings)},
          {"arguments", base::record_json(r.arguments)},
          {"reserved", reserved_json(r.reserved())},
          {"collectives", base::record_json(r.estimate.time.links)},
          {"time", time_json(r)},
          {"parameters", base::record_json(r.stored)}};
}

}  // namespace megacpp::cli
