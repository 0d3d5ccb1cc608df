// SPDX-License-Identifier: Apache-2.0
// Word of waits that go on: for a process that has not come to an agreement and answers, it may compute or hang; for a
// value that no process has put. Worlds are made in many places and by plugins' threads, so one listener hears of all.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace megacpp::collectives {

struct LongWait {
  std::chrono::milliseconds waited{};
  std::string whom;  // "process 1 on node7 (chip 1), which answers"
};

/// Called on the thread that waits. None: nobody listens.
using LongWaitListener = std::function<void(const LongWait& wait)>;

/// From here on, of this program; returns who has listened before.
LongWaitListener listen_to_long_waits(LongWaitListener listener);

void tell_long_wait(const LongWait& wait);

}  // namespace megacpp::collectives
