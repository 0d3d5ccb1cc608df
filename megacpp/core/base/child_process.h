// SPDX-License-Identifier: Apache-2.0
// Work in a process of its own, for code that may abort, crash or hang: a plugin that compiles for a machine that is
// not here. Whatever happens there, this process goes on.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace megacpp::base {

/// Runs `work` in a forked copy of this process and returns what it returns. An error of ours thrown there is thrown
/// here. A child that ends by a signal, ends without an answer, or is not done in time (it is killed then) is E3202,
/// with the signal's name and the last lines it wrote; what it writes to stdout or stderr is kept for that and shown
/// nowhere else. Only the calling thread exists in the child, so `work` must not need threads or locks of this process:
/// load the plugin inside it, not before. `waiting` is told how long it takes so far, again and again.
struct Waiting {
  std::chrono::milliseconds every = std::chrono::seconds(10);
  std::function<void(std::chrono::milliseconds elapsed)> say = {};
};
std::string run_in_child(const std::function<std::string()>& work, std::chrono::milliseconds limit,
                         const Waiting& waiting = {});

}  // namespace megacpp::base
