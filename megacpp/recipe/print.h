// SPDX-License-Identifier: Apache-2.0
// The resolved recipe as YAML text: every key with its value, defaults filled in. parse() of it gives an equal Recipe.
// Sections of families the pattern does not use are left out unless something was set in them.
#pragma once

#include <string>

#include "megacpp/recipe/recipe.h"

namespace megacpp::recipe {

std::string print(const Recipe& recipe);

}  // namespace megacpp::recipe
