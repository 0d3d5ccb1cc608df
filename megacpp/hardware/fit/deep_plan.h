// SPDX-License-Identifier: Apache-2.0
// The plan of a deep model whose blocks repeat, from shallow ones (shallow_plans.h). The list of what is extended, and
// how, is in deep_plan.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/fit/shallow_plans.h"
#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

struct Assumptions;

struct DeepPlan {
  ShallowPlans shallow;
  /// Memory, mesh and FLOPs of the whole model; programs, parameters and state are only in the shallow plans.
  compile::Compiled compiled;
  std::vector<Reservation> reserved = {};  // by stage, as in Estimate
  StepTime time = {};
};

/// Nothing where blocks do not repeat, the model is no deeper than `assumptions.most_planned_whole`, or numbers are on
/// no lines at any depth that is worth it.
std::optional<DeepPlan> deep_plan(const plan::PlannedRecipe& planned, const Assumptions& assumptions,
                                  const schedule::Target& target);

/// Memory and FLOPs alone, for `target`; nothing as above.
std::optional<DeepPlan> deep_memory_plan(const plan::PlannedRecipe& planned, const schedule::Target& target,
                                         int64_t most_planned_whole,
                                         const std::function<void(std::string_view)>& after_pass);

}  // namespace megacpp::fit
