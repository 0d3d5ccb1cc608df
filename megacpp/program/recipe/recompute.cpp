// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/recompute.h"

#include <fmt/format.h>

#include <algorithm>

#include "megacpp/program/blocks/block.h"
#include "megacpp/program/recipe/block_types.h"

namespace megacpp::recipe {

namespace {

std::map<char, RecomputeLevel> of_all_families(RecomputeLevel level) {
  std::map<char, RecomputeLevel> levels;
  for (const blocks::BlockDef& def : blocks::all_blocks()) levels[def.letter] = level;
  return levels;
}

}  // namespace

std::map<char, RecomputeLevel> default_recompute() { return of_all_families(RecomputeLevel::automatic); }

std::string recompute_key(char letter) { return fmt::format("{}.{}", kRecompute, letter); }

std::vector<char> recompute_letters(const Model& model) {
  std::vector<char> letters;
  for (const BlockType& type : block_types(model)) letters.push_back(type.letter);
  return letters;
}

RecomputeLevel recompute_level(const Recipe& recipe, char letter) {
  const auto given = recipe.train.recompute.find(letter);
  return given != recipe.train.recompute.end() ? given->second
                                               : recipe.train.recompute.at(family_of(recipe.model, letter).letter);
}

bool all_recompute_at(const Recipe& recipe, RecomputeLevel level) {
  return std::ranges::all_of(recompute_letters(recipe.model),
                             [&](char letter) { return recompute_level(recipe, letter) == level; });
}

void set_recompute_level(Recipe& recipe, char letter, RecomputeLevel level) { recipe.train.recompute[letter] = level; }

void set_recompute_levels(Recipe& recipe, RecomputeLevel level) { recipe.train.recompute = of_all_families(level); }

}  // namespace megacpp::recipe
