// SPDX-License-Identifier: Apache-2.0
// The order in which a layout's parts are put together. It is the same for every model and layout, so that a reader, or
// a planner, can reason about it; only what a step finds to do differs.
#pragma once

#include <string>
#include <vector>

#include "megacpp/program/plan/plan.h"

namespace megacpp::plan {

struct CompositionStep {
  std::string step;  // "stage cut"
  std::string here;  // "none", or what it does in this plan
};

/// Stage cut, tensor parallel, recompute, compile, ZeRO, expert parallel, optimizer.
std::vector<CompositionStep> composition(const Plan& plan);

}  // namespace megacpp::plan
