// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/spec_gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/axis_sets.h"

namespace megacpp::plan {
namespace {

/// How often the axis stands in the sharding.
int64_t uses(const ir::Sharding& sharding, ir::AxisId axis) {
  int64_t count = std::count(sharding.unreduced.begin(), sharding.unreduced.end(), axis);
  for (const ir::Axes& axes : sharding.dims) count += std::count(axes.begin(), axes.end(), axis);
  return count;
}

void check_uses(const Plan& plan, const blocks::Parameter& parameter, const ParameterSpec& spec) {
  const std::array<std::pair<const char*, const ir::Sharding*>, 5> parts = {{{"stored", &spec.stored},
                                                                             {"kept", &spec.kept},
                                                                             {"computed", &spec.computed},
                                                                             {"gradient", &spec.gradient},
                                                                             {"optimizer", &spec.optimizer}}};
  const ir::Mesh& mesh = plan.parallel.mesh;
  for (const auto& [name, sharding] : parts) {
    for (ir::AxisId axis = 0; axis < mesh.axes().size(); ++axis)
      MEGACPP_REQUIRE(uses(*sharding, axis) <= 1, E1409,
                      {.where = parameter.name,
                       .got = fmt::format("{} as {}: axis {} stands {} times", name, to_string(*sharding, mesh),
                                          mesh.name(axis), uses(*sharding, axis)),
                       .wanted = "each axis at most once",
                       .next = "give the parameter's dimensions names that use different axes"});
  }
}

}  // namespace

GradientPath gradient_path(const Plan& plan, const blocks::Parameter& parameter, const ParameterSpec& spec,
                           ir::AxisId axis) {
  const ir::Axes& copies = copies_of(plan, parameter);
  const bool reaches_optimizer = spec.optimizer.unreduced.empty() && !ir::contains(spec.stored.unreduced, axis);
  if (!reaches_optimizer) return GradientPath::none;
  if (spec.computed.splits(axis))
    return spec.gradient.splits(axis) && spec.optimizer.splits(axis) && !ir::contains(copies, axis)
               ? GradientPath::owned
               : GradientPath::none;
  if (ir::contains(spec.gradient.unreduced, axis))
    return plan.gradients_wait && ir::contains(copies, axis) ? GradientPath::waits : GradientPath::none;
  if (spec.gradient.splits(axis)) return spec.optimizer.splits(axis) ? GradientPath::scattered : GradientPath::none;
  // Copies that see different tokens must have said where their sums meet: below zero 1 in every micro-step, unless
  // they wait.
  const bool is_summed = plan.layout.zero() == 0 && !plan.gradients_wait;
  return ir::contains(copies, axis) && !is_summed ? GradientPath::none : GradientPath::whole;
}

void check_spec(const Plan& plan, const blocks::Parameter& parameter, const ParameterSpec& spec) {
  check_uses(plan, parameter, spec);
  if (!parameter.trainable) return;
  const ir::Mesh& mesh = plan.parallel.mesh;
  for (ir::AxisId axis = 0; axis < mesh.axes().size(); ++axis)
    MEGACPP_REQUIRE(gradient_path(plan, parameter, spec, axis) != GradientPath::none, E1409,
                    {.where = parameter.name,
                     .got = fmt::format("computed {}, gradient {}, optimizer {}: nothing sums the gradient over {}",
                                        to_string(spec.computed, mesh), to_string(spec.gradient, mesh),
                                        to_string(spec.optimizer, mesh), mesh.name(axis)),
                     .wanted = "along every axis a split, a reduction, or the same tokens",
                     .next = "give the parameter's dimensions the names of those a similar parameter has"});
}

}  // namespace megacpp::plan
