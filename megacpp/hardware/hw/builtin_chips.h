// SPDX-License-Identifier: Apache-2.0
// The files of hw/chips as text inside the program; written by cmake/EmbedChips.cmake at build time.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace megacpp::hw {

/// Name ("v6e") and text, sorted by name.
const std::vector<std::pair<std::string_view, std::string_view>>& builtin_chips();

}  // namespace megacpp::hw
