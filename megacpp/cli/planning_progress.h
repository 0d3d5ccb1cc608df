// SPDX-License-Identifier: Apache-2.0
// What a plan that takes long says on stderr while it is made.
#pragma once

#include <functional>
#include <string_view>

namespace megacpp::cli {

/// To be called after every pass of the compiler, by one thread: from a second on it prints a line a second.
std::function<void(std::string_view pass)> planning_progress();

}  // namespace megacpp::cli
