// SPDX-License-Identifier: Apache-2.0
// The gates between a readable recipe and a usable one: every value in its range, sizes that divide, a legal pattern,
// no tensor beyond what can be counted.
// Sections of families the pattern does not use are not looked at. Raises E1001, E1003, E1005 or E1006 on the first
// problem.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::recipe {

/// "nam52.yaml:12 model.attention.heads", or the path alone when nobody gave the key. What a letter takes from its
/// family stands where the family gives it: "nam52.yaml:12 model.attention.heads (of letter G)".
std::string place(const Origins& origins, std::string_view path);

/// One value against its own range: E1003.
void validate_key(const Key& key, const Recipe& recipe, const Origins& origins = {});

void validate(const Recipe& recipe, const Origins& origins = {});

}  // namespace megacpp::recipe
