// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/unused_model_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::recipe {
namespace {

std::vector<BlockType> types_of(const Recipe& recipe, char family) {
  std::vector<BlockType> types = block_types(recipe.model);
  std::erase_if(types, [family](const BlockType& type) { return type.family->letter != family; });
  return types;
}

// `train.recompute: full` gives a level to every family, whether or not the model has it, and nobody named the key of
// one that it lacks. Keys by letter leave families at the default.
bool gives_levels_by_letter(const Train& train) {
  return std::ranges::any_of(blocks::all_blocks(), [&train](const blocks::BlockDef& def) {
    return train.recompute.at(def.letter) == Train{}.recompute.at(def.letter);
  });
}

void add_lines(const blocks::BlockDef& family, std::vector<IgnoredKey>& lines) {
  const char letter = family.letter;
  const std::string absent = fmt::format("the model has no block of family {} ({})", letter, family.title);
  const std::string given = fmt::format("every letter of family {} in the pattern has its own", letter);
  const auto is_absent = [letter](const Recipe& recipe) { return types_of(recipe, letter).empty(); };
  lines.push_back({.key = fmt::format("model.{}.", family.name), .decides = absent, .applies = is_absent});
  for (const blocks::ConfigKey& key : family.keys)
    lines.push_back({.key = fmt::format("model.{}.{}", family.name, key.path),
                     .decides = given,
                     .applies = [letter, name = key.path](const Recipe& recipe) {
                       return std::ranges::all_of(types_of(recipe, letter), [&name](const BlockType& type) {
                         return std::ranges::find(type.own_keys, name) != type.own_keys.end();
                       });
                     }});
  lines.push_back({.key = recompute_key(letter), .decides = absent, .applies = [is_absent](const Recipe& recipe) {
                     return is_absent(recipe) && gives_levels_by_letter(recipe.train);
                   }});
  lines.push_back({.key = recompute_key(letter), .decides = given, .applies = [letter](const Recipe& recipe) {
                     const std::vector<BlockType> types = types_of(recipe, letter);
                     const auto has_its_own = [&recipe](const BlockType& type) {
                       return !type.is_familys_own() && recipe.train.recompute.contains(type.letter);
                     };
                     return !types.empty() && std::ranges::all_of(types, has_its_own) &&
                            gives_levels_by_letter(recipe.train);
                   }});
}

}  // namespace

const std::vector<IgnoredKey>& unused_model_keys() {
  static const std::vector<IgnoredKey> lines = [] {
    std::vector<IgnoredKey> all;
    for (const blocks::BlockDef& family : blocks::all_blocks()) add_lines(family, all);
    all.push_back({.key = "lora.", .decides = "lora.rank is 0: no adapters", .applies = [](const Recipe& recipe) {
                     return !recipe.model.lora.is_on();
                   }});
    return all;
  }();
  return lines;
}

}  // namespace megacpp::recipe
