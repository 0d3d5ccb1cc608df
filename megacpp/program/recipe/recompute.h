// SPDX-License-Identifier: Apache-2.0
// train.recompute letter by letter: which of its keys count for a model, and what they say.
#pragma once

#include <string>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

/// In a recipe's text a group of keys by letter, or one level for all letters.
inline constexpr const char* kRecompute = "train.recompute";
/// "train.recompute.A"
std::string recompute_key(char letter);

/// Letters that the model has, in the order of block_types(); keys of others change nothing.
std::vector<char> recompute_letters(const Model& model);

/// As given, or as the letter's family has it.
RecomputeLevel recompute_level(const Recipe& recipe, char letter);
/// Whether all letters of the model are at that level.
bool all_recompute_at(const Recipe& recipe, RecomputeLevel level);
void set_recompute_level(Recipe& recipe, char letter, RecomputeLevel level);
/// Of all families; letters of the recipe's own follow them again.
void set_recompute_levels(Recipe& recipe, RecomputeLevel level);

}  // namespace megacpp::recipe
