// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/recompute.h"

#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/recipe/pattern.h"

namespace megacpp::recipe {

namespace {

std::string Train::*level_of(char letter) {
  for (const RecomputeKey& key : kRecomputeKeys)
    if (key.family == letter) return key.level;
  base::raise(base::Code::E9001, {.where = "train.recompute", .got = std::string("no family ") + letter});
}

}  // namespace

std::string recompute_key(char letter) { return std::string("train.recompute.") + letter; }

std::string RecomputeKey::name() const { return recompute_key(family); }

const std::string& recompute_level(const Recipe& recipe, char letter) { return recipe.train.*level_of(letter); }

void set_recompute_level(Recipe& recipe, char letter, std::string level) {
  recipe.train.*level_of(letter) = std::move(level);
}

std::vector<char> recompute_letters(const Model& model) {
  std::vector<char> letters;
  for (const RecomputeKey& key : recompute_keys_of(model)) letters.push_back(key.family);
  return letters;
}

std::vector<RecomputeKey> recompute_keys_of(const Model& model) {
  const ExpandedPattern pattern = expand(model.pattern, model.depth);
  std::vector<RecomputeKey> keys;
  for (const RecomputeKey& key : kRecomputeKeys)
    if (has_family(pattern, key.family)) keys.push_back(key);
  return keys;
}

}  // namespace megacpp::recipe
