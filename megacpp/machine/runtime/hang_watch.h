// SPDX-License-Identifier: Apache-2.0
// Sees a chip that hangs outside a call. One that waits in a call learns when the run has failed; one that computes, or
// should, may never come back, and its process would stay although all others have ended. So once the run has failed,
// the step of this process must end within a limit, or the process is ended. Where chips wait for each other inside a
// library that knows no limit, a step has one even while nothing has failed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace megacpp::runtime {

class HangWatch {
  using Clock = std::chrono::steady_clock;

 public:
  struct Options {
    std::function<bool()> has_failed;  // the run, on any process; asked by the watch's own thread
    std::chrono::milliseconds limit;   // for a step to end after that
    std::function<void()> on_hang;     // once; not expected to return
    std::optional<std::chrono::milliseconds> step_limit = {};  // while nothing has failed; nothing: it has none
  };
  /// Where the system gives no thread nobody watches.
  explicit HangWatch(Options options);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  /// Stands for a step while it runs. Never allocates.
  class Step {
   public:
    explicit Step(HangWatch* watch) : watch_(watch) { set(true); }
    ~Step() { set(false); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    void set(bool is_in_step) {
      if (watch_ == nullptr) return;
      const std::lock_guard lock(watch_->mutex_);
      watch_->step_began_ = is_in_step ? std::optional(Clock::now()) : std::nullopt;
    }
    HangWatch* const watch_;
  };

 private:
  void watch();

  const Options options_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Clock::time_point> step_began_;  // nothing outside of steps; guarded, like the next
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the members above
};

/// How long a step may go on after the run has failed: as long as chips may wait for each other, within reason.
std::chrono::milliseconds hang_limit(std::chrono::milliseconds wait_limit);

}  // namespace megacpp::runtime
