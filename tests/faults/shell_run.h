// SPDX-License-Identifier: Apache-2.0
// One line of shell in a process of its own, up to its end: a fault that can be said in a line can be typed again.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

#include "tests/support/error_contract.h"

namespace megacpp::faults {

struct ShellRun {
  std::string line;    // ends in "exec PROGRAM ...", so that signals reach the program
  std::string folder;  // stdout and stderr go to files there, unless the line sends them elsewhere
  std::string name;    // of these files
  std::chrono::seconds time_limit;
};

/// `once_started` may send signals.
testing_support::Ending run_shell(const ShellRun& run, const std::function<void(pid_t)>& once_started);

/// Whether it has ended, as it may at any moment of that time; nobody has asked yet how.
bool has_ended_within(pid_t pid, std::chrono::milliseconds time);

/// Waits until the program handles SIGTERM, as from the first lines of main() on, or has ended; at most two seconds.
void wait_for_main(pid_t pid);

}  // namespace megacpp::faults
