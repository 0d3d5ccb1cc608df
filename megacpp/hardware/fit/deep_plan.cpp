// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/deep_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "megacpp/hardware/fit/deep_memory.h"
#include "megacpp/hardware/fit/deep_tables.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/compile/state_table.h"

namespace megacpp::fit {
namespace {

// ---- Time

/// That of `like`, which may have none of it.
LinkTime link_like(const StepTime& time, const LinkTime& like) {
  const auto at = std::ranges::find(time.links, like.axes, &LinkTime::axes);
  if (at != time.links.end()) return *at;
  LinkTime none = like;
  none.bytes = none.calls = 0;
  none.seconds = none.exposed = 0;
  return none;
}

OpTime op_like(const StepTime& time, const OpTime& like) {
  const auto at =
      std::ranges::find_if(time.ops, [&](const OpTime& op) { return op.program == like.program && op.op == like.op; });
  return at == time.ops.end() ? OpTime{} : *at;
}

double more_than_none(double seconds) { return std::max(0.0, seconds); }

/// Every number of a step: all grow by as much for every period.
StepTime deep_time(const ShallowDepths& depths, const std::array<StepTime, 3>& times, double flops_more) {
  const StepTime &middle = times[1], &last = times[2];
  StepTime time = last;
  for (double StepTime::*const seconds :
       {&StepTime::compute, &StepTime::memory, &StepTime::exposed, &StepTime::exposed_copies, &StepTime::bubble,
        &StepTime::other, &StepTime::arithmetic, &StepTime::overlapped, &StepTime::limit})
    time.*seconds = more_than_none(depths.extended(middle.*seconds, last.*seconds));
  time.unpriced_bytes = depths.extended(middle.unpriced_bytes, last.unpriced_bytes);
  for (LinkTime& link : time.links) {
    const LinkTime before = link_like(middle, link);
    link.bytes = depths.extended(before.bytes, link.bytes);
    link.calls = depths.extended(before.calls, link.calls);
    link.seconds = depths.extended(before.seconds, link.seconds);
    link.exposed = more_than_none(depths.extended(before.exposed, link.exposed));
  }
  for (OpTime& op : time.ops) {
    const OpTime before = op_like(middle, op);
    op.calls = depths.extended(before.calls, op.calls);
    op.seconds = depths.extended(before.seconds, op.seconds);
    op.limit = depths.extended(before.limit, op.limit);
  }
  std::ranges::stable_sort(time.links, std::greater<>(), &LinkTime::seconds);
  std::ranges::stable_sort(time.ops, std::greater<>(), &OpTime::seconds);
  time.range.least = depths.extended(middle.range.least, last.range.least);
  if (middle.range.most && last.range.most) time.range.most = depths.extended(*middle.range.most, *last.range.most);
  time.mfu = last.mfu * flops_more * last.seconds() / time.seconds();
  return time;
}

/// Its parts may pass into each other from one depth to the next: the whole, and what is on the wires.
bool is_time_on_line(const ShallowDepths& depths, const std::array<StepTime, 3>& times) {
  const auto bytes = [](const StepTime& time) {
    double sum = 0;
    for (const LinkTime& link : time.links) sum += static_cast<double>(link.bytes);
    return sum;
  };
  const auto is_straight = [&](const auto& number) {
    return is_on_line(depths, std::array<double, 3>{number(times[0]), number(times[1]), number(times[2])});
  };
  return is_straight([](const StepTime& time) { return time.seconds(); }) &&
         is_straight([](const StepTime& time) { return time.limit; }) && is_straight(bytes) &&
         times[1].range.most.has_value() == times[2].range.most.has_value();
}

// ---- Memory and FLOPs

/// Without programs, parameters and state. Nothing where bytes are on no lines.
std::optional<compile::Compiled> deep_compiled(const ShallowPlans& shallow, const schedule::Target& target) {
  const compile::Compiled& last = shallow.plans[2].compiled;
  compile::Compiled deep;
  deep.mesh = last.mesh;
  deep.time_order = last.time_order;
  deep.fallbacks = last.fallbacks;
  deep.model_flops = shallow.extended([](const ShallowPlan& plan) { return plan.compiled.model_flops; });
  for (const ShallowPlan& plan : shallow.plans)
    deep.passes.insert(deep.passes.end(), plan.compiled.passes.begin(), plan.compiled.passes.end());
  for (size_t stage = 0; stage < last.stages.size(); ++stage) {
    std::optional<memory::MemoryPlan> memory = deep_memory(shallow, stage, target);
    if (!memory) return std::nullopt;
    compile::StagePrograms programs{.memory = std::move(*memory)};
    programs.kept_beside = shallow.extended(
        [stage](const ShallowPlan& plan) { return compile::kept_bytes_by_stage(plan.compiled)[stage]; });
    programs.flops = shallow.extended([stage](const ShallowPlan& plan) { return plan.compiled.stages[stage].flops; });
    deep.stages.push_back(std::move(programs));
  }
  return deep;
}

bool have_same_stages(const ShallowPlans& shallow) {
  return std::ranges::all_of(shallow.plans, [&](const ShallowPlan& plan) {
    return plan.compiled.stages.size() == shallow.plans[2].compiled.stages.size();
  });
}

/// Time and what the backend reserves, added to the plan; whether they are on lines.
bool add_estimates(const plan::PlannedRecipe& planned, const Assumptions& assumptions, const schedule::Target& target,
                   DeepPlan& plan) {
  const ShallowDepths& depths = plan.shallow.depths;
  if (assumptions.has_rates) {
    std::array<StepTime, 3> times;
    for (size_t i = 0; i < times.size(); ++i)
      times[i] = predict_step(plan.shallow.plans[i].compiled, assumptions, planned.recipe().train.precision);
    if (!is_time_on_line(depths, times)) return false;
    plan.time = deep_time(depths, times, plan.compiled.model_flops / plan.shallow.plans[2].compiled.model_flops);
  }
  const StepProgram program{planned, plan.compiled, target, 0, &plan.shallow};
  std::optional<std::vector<Reservation>> reserved = reservations_of(program, assumptions);
  if (!reserved) return false;
  plan.reserved = std::move(*reserved);
  return true;
}

/// From the first depths at which all that is needed is on lines.
template <typename AddMore>
std::optional<DeepPlan> first_on_lines(const plan::PlannedRecipe& planned, const schedule::Target& target,
                                       int64_t most_whole, const std::function<void(std::string_view)>& after_pass,
                                       const AddMore& add_more) {
  for (auto depths = shallow_depths(planned.plan(), most_whole); depths; depths = deeper(*depths)) {
    DeepPlan deep{.shallow = compile_shallow(planned.recipe(), *depths, target, after_pass), .compiled = {}};
    if (!have_same_stages(deep.shallow)) continue;
    std::optional<compile::Compiled> compiled = deep_compiled(deep.shallow, target);
    if (!compiled) continue;
    deep.compiled = std::move(*compiled);
    if (add_more(deep)) return deep;
  }
  return std::nullopt;
}

}  // namespace

std::optional<DeepPlan> deep_plan(const plan::PlannedRecipe& planned, const Assumptions& assumptions,
                                  const schedule::Target& target) {
  return first_on_lines(planned, target, assumptions.most_planned_whole, assumptions.after_pass,
                        [&](DeepPlan& deep) { return add_estimates(planned, assumptions, target, deep); });
}

std::optional<DeepPlan> deep_memory_plan(const plan::PlannedRecipe& planned, const schedule::Target& target,
                                         int64_t most_planned_whole,
                                         const std::function<void(std::string_view)>& after_pass) {
  return first_on_lines(planned, target, most_planned_whole, after_pass, [](DeepPlan&) { return true; });
}

}  // namespace megacpp::fit
