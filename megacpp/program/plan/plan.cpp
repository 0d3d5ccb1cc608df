// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/plan.h"

#include <algorithm>

#include "megacpp/core/ir/axis_sets.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/plan/spread.h"
#include "megacpp/program/recipe/pattern.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::plan {
namespace {

using blocks::Dim;

/// Axes over which weights stay split between forward and backward.
ir::Axes kept_axes(const Plan& plan) {
  using Over = recipe::ReshardAfterForward::Over;
  const Over over = plan.layout->reshard_after_forward.over;
  if (plan.layout.zero() < 3 || over == Over::none) return {};
  if (over == Over::all) return ir::merged(plan.copies, plan.expert_copies);
  return {plan.parallel.axes_of(Dim::data).back()};
}

Training training_of(const recipe::Recipe& recipe) {
  const recipe::Train& train = recipe.train;
  Training training{
      .batch = train.batch, .sequence = train.sequence, .micro_steps = train.micro_steps, .precision = train.precision};
  for (const char letter : recipe::recompute_letters(recipe.model))
    training.recompute[letter] = recipe::recompute_level(recipe, letter);
  return training;
}

}  // namespace

Plan make_plan(const recipe::Recipe& recipe, Adjustable adjustable) {
  check_layout(recipe, adjustable);
  Plan plan;
  plan.model = recipe.model;
  plan.training = training_of(recipe);
  plan.layout = ResolvedLayout(recipe.model, recipe.layout);
  plan.gathers = gather_unit(plan.layout->policy);
  plan.parallel = spread(recipe.model, plan.layout);
  const blocks::Parallel& parallel = plan.parallel;
  plan.copies = ir::merged(parallel.axes_of(Dim::batch), parallel.axes_of(Dim::sequence));
  plan.expert_copies = ir::merged(parallel.axes_of(Dim::data), parallel.axes_of(Dim::tokens));
  plan.optimizer = recipe.optimizer;
  plan.chips = parallel.mesh.chips();
  plan.stages = plan.layout->pipeline_parallel;
  if (plan.stages > 1) plan.cuts = recipe::expand(recipe.model).cuts;
  plan.adds_micro_steps = plan.training.micro_steps > 1;
  plan.gradients_wait = plan.layout.zero() < 2 && plan.adds_micro_steps;
  plan.kept = kept_axes(plan);
  return plan;
}

const ir::Axes& copies_of(const Plan& plan, const blocks::Parameter& parameter) {
  const bool of_experts = std::find(parameter.dims.begin(), parameter.dims.end(), Dim::experts) != parameter.dims.end();
  return of_experts ? plan.expert_copies : plan.copies;
}

}  // namespace megacpp::plan
