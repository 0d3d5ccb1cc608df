// SPDX-License-Identifier: Apache-2.0
// A recipe that leaves chips of a slice over, changed so that all have work (fit::filling_changes), or refused in words
// that say what filled it and what would.
#pragma once

#include "megacpp/hw/slice.h"
#include "megacpp/plan/next_step.h"
#include "megacpp/plan/plan.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::cli {

struct FilledRecipe {
  recipe::Recipe recipe;
  plan::Changes changes;  // that were made
  plan::Plan plan;
};

/// The gates' refusals; one of a recipe that was changed names the changes. A batch too small to be shared by all chips
/// (E1405) is answered with degrees that let them share sequences.
FilledRecipe fill_slice(const recipe::Recipe& recipe, const hw::Slice& slice);

}  // namespace megacpp::cli
