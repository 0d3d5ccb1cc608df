// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/block_types.h"

#include <fmt/format.h>

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/pattern.h"

namespace megacpp::recipe {
namespace {

std::vector<std::string> own_keys(const Model& model, char letter) {
  std::vector<std::string> keys;
  if (const auto own = model.letters.find(letter); own != model.letters.end())
    for (const auto& [setting, value] : own->second.settings) keys.push_back(setting.substr(setting.find('.') + 1));
  return keys;
}

void apply(const std::string& setting, const std::string& value, const blocks::BlockDef& family,
           blocks::Config& config) {
  const size_t dot = setting.find('.');
  const auto key = std::ranges::find(family.keys, setting.substr(dot + 1), &blocks::ConfigKey::path);
  const bool is_set = setting.substr(0, dot) == family.name && key != family.keys.end() &&
                      schema::read_scalar(value, key->member(config));
  MEGACPP_CHECK(is_set) << setting << ": " << value << " was not validated";
}

}  // namespace

std::string BlockType::path(std::string_view key) const {
  return is_familys_own() ? fmt::format("model.{}.{}", family->name, key)
                          : fmt::format("model.letters.{}.{}.{}", letter, family->name, key);
}

const blocks::BlockDef& family_of(const Model& model, char letter) {
  const auto own = model.letters.find(letter);
  return blocks::block_def(own == model.letters.end() ? letter : own->second.family.at(0));
}

blocks::Config config_of(const Model& model, char letter) {
  const blocks::BlockDef& family = family_of(model, letter);
  blocks::Config config = model.families.at(family.letter);
  if (const auto own = model.letters.find(letter); own != model.letters.end())
    for (const auto& [setting, value] : own->second.settings) apply(setting, value, family, config);
  return config;
}

std::vector<BlockType> block_types(const Model& model) {
  const std::vector<char> letters = expand(model).letters;
  std::vector<BlockType> types;
  for (const blocks::BlockDef& family : blocks::all_blocks()) {
    std::string of_family(1, family.letter);
    for (const auto& [letter, own] : model.letters)
      if (own.family == std::string(1, family.letter)) of_family += letter;
    for (const char letter : of_family)
      if (const auto blocks = std::ranges::count(letters, letter); blocks > 0)
        types.push_back({.letter = letter,
                         .family = &family,
                         .config = config_of(model, letter),
                         .blocks = blocks,
                         .own_keys = own_keys(model, letter)});
  }
  return types;
}

std::vector<int64_t> expert_counts(const Model& model) {
  std::vector<int64_t> counts;
  for (const BlockType& type : block_types(model))
    if (const int64_t experts = type.traits().router.experts; experts > 0) counts.push_back(experts);
  return counts;
}

bool has_experts(const Model& model) { return !expert_counts(model).empty(); }

}  // namespace megacpp::recipe
