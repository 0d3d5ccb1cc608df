// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/small_models.h"

namespace megacpp::testing_support {

/// Two micro-steps of the small model with every family, all letters recomputed alike.
inline recipe::Recipe small_training(recipe::RecomputeLevel recompute) {
  recipe::Recipe recipe;
  recipe.name = "small";
  recipe.model = small_models()[4];
  recipe.train = {.batch = 2, .sequence = 8, .micro_steps = 2, .steps = 1};
  for (auto& [letter, level] : recipe.train.recompute) level = recompute;
  return recipe;
}

}  // namespace megacpp::testing_support
