// SPDX-License-Identifier: Apache-2.0
// The resolved recipe as YAML text: every key with its value, defaults filled in. parse() of it gives an equal Recipe.
// Sections of families the pattern does not use are left out unless something was set in them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

/// A key and its value: {"train.batch", "8"}.
struct Setting {
  std::string key;
  std::string value;
};
/// What print() writes, in its order.
std::vector<Setting> settings_of(const Recipe& recipe);

/// Settings as YAML text. Those of a section must stand together.
std::string to_yaml(std::span<const Setting> settings);

std::string print(const Recipe& recipe);

}  // namespace megacpp::recipe
