// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/estimate.h"

#include <algorithm>

#include "megacpp/fit/axis_link.h"
#include "megacpp/fit/hardware_target.h"
#include "megacpp/fit/step_time.h"
#include "megacpp/memory/chip_fit.h"
#include "megacpp/model/model.h"
#include "megacpp/plan/parameter_table.h"
#include "megacpp/recipe/pattern.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

constexpr double kStateBytes = 4;  // of an element: gradients and weights travel in f32 where the update moves them

double number(int64_t value) { return static_cast<double>(value); }

/// The model at another depth, on one chip, one sequence at a time.
Recipe twin_of(const Recipe& recipe, int64_t depth) {
  Recipe twin = recipe;
  std::erase(twin.model.pattern, '|');
  twin.model.depth = depth;
  twin.layout = {};
  twin.train.batch = 1;
  twin.train.micro_steps = 1;
  return twin;
}

struct Depths {
  int64_t shallow, deep;
};
Depths depths_of(const recipe::Model& model) {
  std::string period = model.pattern;
  std::erase(period, '|');
  const int64_t blocks = static_cast<int64_t>(period.size());
  const int64_t deep = std::min(2 * blocks, model.depth);
  return {std::min(blocks, deep / 2), deep};
}

/// What is held beside weights, gradients and optimizer state.
double live_bytes(const memory::MemoryPlan& plan) {
  int64_t bytes = plan.total_bytes;
  for (const memory::RoleBytes& role : memory::bytes_by_role(plan))
    if (role.role == ir::Role::weight || role.role == ir::Role::gradient || role.role == ir::Role::optimizer)
      bytes -= role.bytes;
  return number(bytes);
}

/// Part of its bytes that each of a group of n passes on.
double passed_on(int64_t n) { return number(n - 1) / number(n); }

ir::Axes axes_named(const ir::Mesh& mesh, std::string_view name) {
  ir::Axes axes;
  for (size_t a = 0; a < mesh.axes().size(); ++a)
    if (mesh.axes()[a].name.starts_with(name)) axes.push_back(static_cast<ir::AxisId>(a));
  return axes;
}

}  // namespace

Estimator::Estimator(const Recipe& recipe, const Ground& ground)
    : recipe_(recipe), ground_(ground), parameters_(model::parameters_of(recipe.model)) {
  for (const char* level : {"none", "selective", "full"}) costs_[level] = measure(level);
}

Estimator::Cost Estimator::measure(const std::string& recompute) const {
  const hw::Chip device = hw::device_of(ground_.slice.chip);
  const schedule::Target target =
      device.kind == hw::ChipKind::host ? ground_.kernels : hardware_target(device, ground_.kernels);
  const auto compiled = [&](int64_t depth) {
    Recipe twin = twin_of(recipe_, depth);
    for (std::string* of :
         {&twin.train.recompute_A, &twin.train.recompute_M, &twin.train.recompute_E, &twin.train.recompute_R})
      *of = recompute;
    return compile::compile_training(twin, target);
  };
  const Depths depths = depths_of(recipe_.model);
  const compile::Compiled deep = compiled(depths.deep);
  const auto seconds_of = [&](const compile::Compiled& one) {
    return predict_step(one, ground_.slice, recipe_.train.precision).seconds();
  };
  Cost cost{.bytes = live_bytes(deep.largest().memory), .seconds = seconds_of(deep)};
  const double blocks = number(depths.deep - depths.shallow);
  if (depths.shallow > 0) {
    const compile::Compiled shallow = compiled(depths.shallow);
    cost.bytes_per_block = std::max(0.0, cost.bytes - live_bytes(shallow.largest().memory)) / blocks;
    cost.seconds_per_block = std::max(0.0, cost.seconds - seconds_of(shallow)) / blocks;
  }
  cost.bytes = std::max(0.0, cost.bytes - cost.bytes_per_block * number(depths.deep));
  cost.seconds = std::max(0.0, cost.seconds - cost.seconds_per_block * number(depths.deep));
  return cost;
}

double Estimator::weight_elements(bool of_experts) const {
  double elements = 0;
  for (const blocks::Parameter& parameter : parameters_) {
    const bool is_experts = std::ranges::find(parameter.dims, blocks::Dim::experts) != parameter.dims.end();
    if (is_experts == of_experts) elements += number(ir::num_elements(parameter.shape));
  }
  return elements;
}

double Estimator::traffic_seconds(const LayoutChoice& c, const plan::Plan& plan, double compute) const {
  const ir::Mesh& mesh = plan.parallel.mesh;
  const auto seconds = [&](double bytes, const ir::Axes& axes) {
    const AxisLink link = link_along(ground_.slice, mesh, axes);
    return link.bytes_per_second > 0 ? bytes / link.bytes_per_second : 0.0;
  };
  const recipe::ExpandedPattern pattern = recipe::expand(recipe_.model.pattern, recipe_.model.depth);
  const auto blocks_of = [&](char family) {
    return number(std::ranges::count(pattern.families, family)) / number(c.pipeline);
  };
  const double element = recipe_.train.precision == "bf16" ? 2 : 4;
  const double tokens =
      number(c.batch * c.micro_steps) * number(recipe_.train.sequence) / number(c.data * c.expert * c.context);
  const double stream = tokens * number(recipe_.model.hidden) * element;  // of a step, on a chip, before tensor splits

  // Into and out of every block, forward and backward.
  double waiting = 0;
  if (c.tensor > 1)
    waiting += seconds(4 * stream * passed_on(c.tensor) * number(recipe_.model.depth) / number(c.pipeline),
                       axes_named(mesh, "model"));
  if (c.expert > 1)
    waiting += seconds(
        4 * stream * number(recipe_.model.feed_forward.top_k) / number(c.tensor) * passed_on(c.expert) * blocks_of('E'),
        axes_named(mesh, "expert"));
  if (c.context > 1) {
    const recipe::Attention& a = recipe_.model.attention;
    const double keys = tokens * number(2 * a.kv_heads * a.head_dim) * element / number(c.tensor);
    waiting += seconds(3 * keys * number(c.context - 1) * blocks_of('A'), axes_named(mesh, "context"));
  }
  // Weights and gradients travel beside the work.
  const double held =
      (weight_elements(false) + weight_elements(true) / number(c.expert)) / number(c.tensor * c.pipeline);
  const double steps = number(c.micro_steps), part = passed_on(mesh.size(plan.copies));
  double bytes = kStateBytes * held * part * (c.zero >= 2 ? steps : 1);  // gradients
  bytes += c.zero == 3 ? 2 * element * held * part * steps : kStateBytes * held * part;
  return waiting + std::max(0.0, seconds(bytes, plan.copies) - compute);
}

Estimate Estimator::estimate(const LayoutChoice& c) const {
  const Recipe recipe = with_changes(recipe_, changes_for(recipe_, c));
  const plan::Plan plan = plan::make_plan(recipe);
  const Cost& cost = costs_.at(c.recompute);
  const double depth = number(recipe_.model.depth), sharing = number(c.tensor * c.context);
  const double chip_batch = number(c.batch) / number(c.data * c.expert);
  const double in_flight = number(std::min(c.pipeline, c.micro_steps));
  Estimate estimate;
  estimate.state = number(plan::state_bytes(plan, parameters_).total()) / number(c.pipeline);
  estimate.bytes = estimate.state +
                   chip_batch / sharing * (cost.bytes + cost.bytes_per_block * depth * in_flight / number(c.pipeline));
  const double compute = chip_batch * number(c.micro_steps) / sharing *
                         (cost.seconds + cost.seconds_per_block * depth) / number(c.pipeline);
  estimate.seconds =
      (compute + traffic_seconds(c, plan, compute)) * (1 + number(c.pipeline - 1) / number(c.micro_steps));
  return estimate;
}

}  // namespace megacpp::fit
