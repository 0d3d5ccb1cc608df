// SPDX-License-Identifier: Apache-2.0
// The pattern string: each letter names a block, of a family or defined by the recipe; '|' cuts pipeline stages by hand
// and is no block. Tiled to a depth; the last tile is cut short where the depth ends.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

struct ExpandedPattern {
  std::vector<char> letters;  // [depth]
  std::vector<int64_t> cuts;  // ascending block indices in (0, depth) that begin a new stage
};

/// E1006 for a pattern without blocks, with a character that is no letter of a family or of `own`, or with a stage that
/// has no block; E1003 for depth < 1.
ExpandedPattern expand(std::string_view pattern, int64_t depth, std::string_view own = "");
ExpandedPattern expand(const Model& model);

}  // namespace megacpp::recipe
