// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/silent_process_watch.h"

#include <utility>

#include "megacpp/core/base/thread.h"

namespace megacpp::launch {

SilentProcessWatch::SilentProcessWatch(Options options)
    : options_(std::move(options)), thread_(base::start_thread("the watch of other processes", [this] { watch(); })) {}

SilentProcessWatch::~SilentProcessWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  thread_.join();
}

void SilentProcessWatch::watch() {
  while (!options_.has_stopped())
    if (ends_within(options_.look_every)) return;
  const std::optional<std::string> silent = options_.silent_successor(options_.answer_limit);
  if (silent && !ends_within(std::chrono::milliseconds(0))) options_.say(*silent);
}

bool SilentProcessWatch::ends_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return over_.wait_for(lock, time, [this] { return is_over_; });
}

}  // namespace megacpp::launch
