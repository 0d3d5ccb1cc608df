// SPDX-License-Identifier: Apache-2.0
// What a launch says while it goes on, one line at a time. A launch prints nothing itself: a command prints the lines,
// a test keeps them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace megacpp::launch {

struct Line {
  std::string_view topic;  // "ladder", "catalog", "memory"
  std::string text;
};
using Log = std::function<void(const Line&)>;

/// For a launch that nobody listens to.
inline void no_log(const Line&) {}

}  // namespace megacpp::launch
