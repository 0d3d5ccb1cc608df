// SPDX-License-Identifier: Apache-2.0
// A recipe as it was asked for, with the plan that was made of it: the one place where a recipe is resolved. Who needs
// both takes this, so that no recipe stands beside the plan of another; who needs the plan alone takes that.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

class PlannedRecipe {
 public:
  /// Of nothing: no model, one chip.
  PlannedRecipe() = default;
  /// As make_plan().
  explicit PlannedRecipe(recipe::Recipe recipe, Adjustable adjustable = Adjustable::recipe);

  const recipe::Recipe& recipe() const { return recipe_; }
  const Plan& plan() const { return plan_; }
  /// The recipe that asks for exactly the layout that this became.
  recipe::Recipe resolved() const;

  // Sections that no plan depends on.
  void set_xla(recipe::Xla xla) { recipe_.xla = std::move(xla); }
  void set_hardware(recipe::Hardware hardware) { recipe_.hardware = std::move(hardware); }

 private:
  recipe::Recipe recipe_;
  Plan plan_;
};

/// The plan of the recipe with changes made, as --set takes them; nothing where a gate refuses them. E1001 to E1005 as
/// for --set.
std::optional<Plan> changed_plan(const recipe::Recipe& recipe, const std::vector<std::string>& changes);

/// The same of one recipe, for who asks about several changes and takes no recipe. It must outlive what is returned.
using ChangedPlan = std::function<std::optional<Plan>(const std::vector<std::string>& changes)>;
ChangedPlan changes_to(const recipe::Recipe& recipe);

}  // namespace megacpp::plan
