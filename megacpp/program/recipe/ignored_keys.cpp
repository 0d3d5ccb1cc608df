// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/ignored_keys.h"

#include <algorithm>

#include "megacpp/program/recipe/schema.h"

namespace megacpp::recipe {
namespace {

bool names(const IgnoredKey& line, const std::string& path) {
  return line.key.ends_with('.') ? path.starts_with(line.key) : path == line.key;
}

}  // namespace

const IgnoredKey* line_ignoring(const std::vector<IgnoredKey>& table, const std::string& key, const Recipe& recipe,
                                Use use) {
  const auto line = std::ranges::find_if(table, [&](const IgnoredKey& one) {
    const bool is_read = use == Use::plan && one.plans_read_it;
    return names(one, key) && !is_read && (!one.applies || one.applies(recipe));
  });
  return line == table.end() ? nullptr : &*line;
}

std::vector<KeyWithoutEffect> ignored_keys(const std::vector<IgnoredKey>& table, const Recipe& recipe, Use use) {
  const Recipe defaults;
  std::vector<KeyWithoutEffect> found;
  for (const Key& key : keys()) {
    if (value_text(member_of(key, recipe)) == value_text(member_of(key, defaults))) continue;
    const IgnoredKey* const line = line_ignoring(table, key.path, recipe, use);
    if (line == nullptr) continue;
    const auto origin = recipe.origins.find(key.path);
    found.push_back(
        {.key = key.path, .reason = line->decides, .origin = origin == recipe.origins.end() ? "" : origin->second});
  }
  return found;
}

std::vector<KeyWithoutEffect> ignored_overrides(const std::vector<IgnoredKey>& table, const Recipe& recipe) {
  std::vector<KeyWithoutEffect> found;
  for (const auto& given : recipe.origins) {
    if (given.second != kSetOrigin) continue;
    const auto line = std::ranges::find_if(
        table, [&](const IgnoredKey& one) { return names(one, given.first) && (!one.applies || one.applies(recipe)); });
    if (line != table.end()) found.push_back({.key = given.first, .reason = line->decides, .origin = given.second});
  }
  return found;
}

}  // namespace megacpp::recipe
