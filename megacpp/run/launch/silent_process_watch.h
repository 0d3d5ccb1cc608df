// SPDX-License-Identifier: Apache-2.0
// Says which process is gone while a run over processes is being stopped. A launcher that loses a process asks all the
// others to stop and kills them a second later: they wait for it in a call then, and have no other moment to name it.
// Where a user asks for the stop all processes answer, and nothing is said.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace megacpp::launch {

class SilentProcessWatch {
 public:
  /// All are called on the watch's own thread, until the object ends. The times are together well below the second that
  /// launchers give.
  struct Options {
    std::function<bool()> has_stopped;  // asked again and again, until it says yes
    /// Then, once: the process that gives no sign within the limit (World::silent_successor).
    std::function<std::optional<std::string>(std::chrono::milliseconds limit)> silent_successor;
    std::function<void(const std::string& process)> say;  // with that, if there is one
    std::chrono::milliseconds look_every{50};
    std::chrono::milliseconds answer_limit{400};
  };
  explicit SilentProcessWatch(Options options);
  /// Waits for a question that is under way; what it finds is not said any more.
  ~SilentProcessWatch();
  SilentProcessWatch(const SilentProcessWatch&) = delete;
  SilentProcessWatch& operator=(const SilentProcessWatch&) = delete;

 private:
  void watch();
  /// Whether the object ends, within the time.
  bool ends_within(std::chrono::milliseconds time);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;  // guarded
  std::thread thread_;    // last: it uses the members above
};

}  // namespace megacpp::launch
