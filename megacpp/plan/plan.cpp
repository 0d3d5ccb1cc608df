// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/plan.h"

#include <algorithm>

#include "megacpp/ir/axis_sets.h"
#include "megacpp/plan/degrees.h"
#include "megacpp/plan/gates.h"
#include "megacpp/plan/spread.h"
#include "megacpp/plan/tensor_split.h"
#include "megacpp/recipe/block_types.h"
#include "megacpp/recipe/pattern.h"

namespace megacpp::plan {
namespace {

using blocks::Dim;

constexpr int64_t kGradientBytes = 4;  // gradients are added up in f32

/// As Megatron-Core sizes its buckets: large enough that a collective over all chips pays.
int64_t published_bucket_bytes(int64_t sharing_chips) {
  return kGradientBytes * std::max<int64_t>(40'000'000, 1'000'000 * sharing_chips);
}

void resolve(const recipe::Model& model, recipe::Layout& layout) {
  layout.chips = product_of_degrees(layout);
  layout.sequence_parallel = layout.sequence_parallel && layout.tensor_parallel > 1;
  if (recipe::has_experts(model)) layout.expert_tensor_parallel = expert_tensor_parallel(layout);
  layout.load_balance = is_balanced(model, layout);
}

/// Axes over which weights stay split between forward and backward.
ir::Axes kept_axes(const Plan& plan) {
  const std::string& reshard = plan.layout.reshard_after_forward;
  if (plan.layout.zero < 3 || reshard == "false") return {};
  if (reshard == "true") return ir::merged(plan.copies, plan.expert_copies);
  return {plan.parallel.axes_of(Dim::data).back()};
}

}  // namespace

Plan make_plan(const recipe::Recipe& recipe, Adjustable adjustable) {
  check_layout(recipe, adjustable);
  recipe::Recipe resolved = recipe;
  Plan plan;
  plan.gathers = apply_policy(resolved.layout);
  resolve(resolved.model, resolved.layout);
  plan.parallel = spread(resolved.model, resolved.layout);
  const blocks::Parallel& parallel = plan.parallel;
  plan.copies = ir::merged(parallel.axes_of(Dim::batch), parallel.axes_of(Dim::sequence));
  plan.expert_copies = ir::merged(parallel.axes_of(Dim::data), parallel.axes_of(Dim::tokens));
  if (resolved.layout.bucket_bytes == 0)
    resolved.layout.bucket_bytes = published_bucket_bytes(parallel.mesh.size(plan.copies));
  plan.layout = resolved.layout;
  plan.optimizer = resolved.optimizer;
  plan.chips = parallel.mesh.chips();
  plan.stages = plan.layout.pipeline_parallel;
  if (plan.stages > 1) plan.cuts = recipe::expand(resolved.model).cuts;
  plan.adds_micro_steps = resolved.train.micro_steps > 1;
  plan.gradients_wait = plan.layout.zero < 2 && plan.adds_micro_steps;
  plan.kept = kept_axes(plan);
  return plan;
}

const ir::Axes& copies_of(const Plan& plan, const blocks::Parameter& parameter) {
  const bool of_experts = std::find(parameter.dims.begin(), parameter.dims.end(), Dim::experts) != parameter.dims.end();
  return of_experts ? plan.expert_copies : plan.copies;
}

}  // namespace megacpp::plan
