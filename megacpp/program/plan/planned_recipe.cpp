// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/planned_recipe.h"

#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp::plan {

PlannedRecipe::PlannedRecipe(recipe::Recipe recipe, Adjustable adjustable)
    : recipe_(std::move(recipe)), plan_(make_plan(recipe_, adjustable)) {}

recipe::Recipe PlannedRecipe::resolved() const {
  recipe::Recipe resolved = recipe_;
  resolved.layout = plan_.layout.keys();
  return resolved;
}

std::optional<Plan> changed_plan(const recipe::Recipe& recipe, const std::vector<std::string>& changes) {
  recipe::Recipe changed = recipe;
  recipe::apply_overrides(changed, changes);
  try {
    return make_plan(changed);
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

ChangedPlan changes_to(const recipe::Recipe& recipe) {
  return [&recipe](const std::vector<std::string>& changes) { return changed_plan(recipe, changes); };
}

}  // namespace megacpp::plan
