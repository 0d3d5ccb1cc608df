// SPDX-License-Identifier: Apache-2.0
// Numbers of things as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace megacpp::base {

/// "1 step", "2 steps", "0 launches", "3 processes", "2 entries": `noun` is the singular, its last word the one that
/// changes.
std::string counted(int64_t count, std::string_view noun);

}  // namespace megacpp::base
