// SPDX-License-Identifier: Apache-2.0
// Threads that a command cannot do without. A system that starts no more of them, for lack of memory for their stacks
// or by a limit on their number, is an error with a code.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace megacpp::base {

/// Runs `body` on a thread of its own. E3002 where the system does not start it; `purpose` says there what it was for:
/// "messages between processes".
std::thread start_thread(const std::string& purpose, std::function<void()> body);

}  // namespace megacpp::base
