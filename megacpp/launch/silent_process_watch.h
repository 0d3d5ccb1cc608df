// SPDX-License-Identifier: Apache-2.0
// Says which process is gone while a run over processes is being stopped. A launcher that loses a process asks all the
// others to stop and kills them a second later: they wait for it in a call then, and have no other moment to name it.
// Where a user asks for the stop all processes answer, and nothing is said.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "megacpp/launch/agreement.h"

namespace megacpp::launch {

class SilentProcessWatch {
 public:
  /// `has_stopped` is asked on a thread, until the object ends; `say` is called there, once at most, with the process.
  SilentProcessWatch(Agreement& agreement, std::function<bool()> has_stopped,
                     std::function<void(const std::string& process)> say);
  ~SilentProcessWatch();
  SilentProcessWatch(const SilentProcessWatch&) = delete;
  SilentProcessWatch& operator=(const SilentProcessWatch&) = delete;

 private:
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace megacpp::launch
