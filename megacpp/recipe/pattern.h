// SPDX-License-Identifier: Apache-2.0
// The pattern string: letters A, M, E, R name blocks, '|' cuts pipeline stages by hand and is no block.
// Tiled to a depth; the last tile is cut short where the depth ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::recipe {

struct ExpandedPattern {
  std::vector<char> families;  // [depth], each one of "AMER"
  std::vector<int64_t> cuts;   // ascending block indices in (0, depth) that begin a new stage
};

/// E1006 for a pattern without blocks, with another character, or with a stage that has no block; E1003 for depth < 1.
ExpandedPattern expand(std::string_view pattern, int64_t depth);

/// Whether a block of `family` stands in the pattern within its first `depth` blocks.
bool has_family(const ExpandedPattern& pattern, char family);

}  // namespace megacpp::recipe
