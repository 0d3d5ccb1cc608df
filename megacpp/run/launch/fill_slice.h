// SPDX-License-Identifier: Apache-2.0
// A recipe that leaves chips of a slice over, changed so that all have work: by data_parallel (fit::filling_changes),
// and where the batch is too small for that and the recipe says nothing of it, by chips that share sequences.
#pragma once

#include <string>

#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::launch {

/// "layout.data_parallel: 4, train.batch: 8"
std::string changes_text(const plan::Changes& changes);

struct FilledRecipe {
  plan::PlannedRecipe planned;
  plan::Changes changes;  // that were made
};

/// The gates' refusals; one of a recipe that was changed names the changes.
FilledRecipe fill_slice(const recipe::Recipe& recipe, const hw::Slice& slice);

}  // namespace megacpp::launch
