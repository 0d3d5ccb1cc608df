// SPDX-License-Identifier: Apache-2.0
// A model that comes from elsewhere than a recipe: from a Hugging Face folder, or from the run whose weights are taken.
// The recipe around it need not say what the model is, and may not say anything else; what only training reads, such
// as losses and document masks, is the recipe's.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

struct GivenModel {
  Model model;         // validated
  std::string source;  // where it stands: "path/to/model/config.json"
};

/// Whether the logits of a single document depend on a key of the model, given its weights: not on losses, initial
/// values, document masks and the chunks that a recurrence is computed in. Of a letter's setting the family's key.
bool logits_depend_on(std::string_view key);

/// E1205 names the first key of the model that the recipe gives and that the given model has otherwise. Called before
/// the values of the recipe are known to fit together.
void require_given_model(const Recipe& recipe, const Origins& origins, const GivenModel& given);

}  // namespace megacpp::recipe
