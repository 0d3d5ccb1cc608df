// SPDX-License-Identifier: Apache-2.0
// What must hold of every parameter's specs, whatever made them: no axis stands twice in one, and along every axis of
// the mesh the gradient reaches the optimizer complete.
#pragma once

#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/plan/plan.h"

namespace megacpp::plan {

/// How the parts of a gradient along one mesh axis become what the optimizer needs.
enum class GradientPath : uint8_t {
  owned,      // the axis splits the parameter: each chip has all of its own part's gradient
  waits,      // partial sums stay partial over micro-steps, the update reduces them
  scattered,  // every micro-step reduces them, each chip keeps a part
  whole,      // every micro-step leaves it whole: copies see the same tokens, or (zero 0) the sums of all of them
  none,       // not at all: copies would drift apart
};

GradientPath gradient_path(const Plan& plan, const blocks::Parameter& parameter, const ParameterSpec& spec,
                           ir::AxisId axis);

/// E1409 for an axis that stands twice in one spec, or over which a trainable parameter's gradient has no path.
void check_spec(const Plan& plan, const blocks::Parameter& parameter, const ParameterSpec& spec);

}  // namespace megacpp::plan
