// SPDX-License-Identifier: Apache-2.0
// train.recompute family by family: the one list of its keys, and which of them count for a model.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "megacpp/recipe/recipe.h"

namespace megacpp::recipe {

/// The level that leaves it to planning (fit/auto_recompute.h). Compiled as it is, without hardware to plan for, it
/// keeps everything, as "none" does.
inline constexpr const char* kAutoRecompute = "auto";

struct RecomputeKey {
  char family;
  std::string Train::*level;  // "auto", "none", "selective" or "full"

  std::string name() const;  // "train.recompute.A"
};

inline constexpr std::array<RecomputeKey, 4> kRecomputeKeys = {
    {{'A', &Train::recompute_A}, {'M', &Train::recompute_M}, {'E', &Train::recompute_E}, {'R', &Train::recompute_R}}};

/// Those of families that the model has, in the same order; the others change nothing.
std::vector<RecomputeKey> recompute_keys_of(const Model& model);

/// "train.recompute.A"
std::string recompute_key(char letter);
/// Letters that the model has, in the order of the keys.
std::vector<char> recompute_letters(const Model& model);
/// "auto", "none", "selective" or "full"
const std::string& recompute_level(const Recipe& recipe, char letter);
void set_recompute_level(Recipe& recipe, char letter, std::string level);

}  // namespace megacpp::recipe
