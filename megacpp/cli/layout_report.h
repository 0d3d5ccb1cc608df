// SPDX-License-Identifier: Apache-2.0
// What a plan decided, in words and as JSON: the part that all commands which print plans share.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/program/plan/composition.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/plan/parameter_table.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::cli {

/// "layout.zero: 1, layout.prefetch: 1": values that the recipe leaves to the planner.
std::string decided_text(const plan::PlannedRecipe& planned);
/// Every key of the layout with the value it has in the plan.
Json resolved_layout_json(const plan::PlannedRecipe& planned);

/// A numbered line for each step.
std::string composition_text(const std::vector<plan::CompositionStep>& steps);
Json composition_json(const std::vector<plan::CompositionStep>& steps);

/// 4x8
std::string shape_text(const ir::Shape& shape);

/// "sharded", "replicated", or "whole" on the only chip that has it.
const char* class_name(const plan::ParameterRow& row);
/// A table of how parameters are sharded; with a pipeline, by stage.
std::string parameters_text(const std::vector<plan::ParameterRow>& rows, const plan::Plan& plan);

}  // namespace megacpp::cli
