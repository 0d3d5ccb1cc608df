// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/hang_watch.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace megacpp::runtime {
namespace {

constexpr std::chrono::milliseconds kLookEvery = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kLeastLimit = std::chrono::seconds(5), kMostLimit = std::chrono::seconds(60);

}  // namespace

HangWatch::HangWatch(Options options) : options_(std::move(options)) {
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    return;  // a run without is as good while nothing fails
  }
}

HangWatch::~HangWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HangWatch::watch() {
  const std::chrono::milliseconds least = std::min(options_.limit, options_.step_limit.value_or(options_.limit));
  const std::chrono::milliseconds look = std::min(kLookEvery, least / 4);
  Clock::time_point failed = Clock::time_point::max();  // when a failure of this step was seen first
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, look, [this] { return is_ending_; })) {
    const std::optional<Clock::time_point> began = step_began_;
    lock.unlock();
    const bool waits = began && options_.has_failed();
    failed = waits ? std::min(failed, Clock::now()) : Clock::time_point::max();
    const bool hangs = (waits && Clock::now() - failed >= options_.limit) ||
                       (began && !waits && options_.step_limit && Clock::now() - *began >= *options_.step_limit);
    if (hangs) options_.on_hang();
    lock.lock();
    if (hangs) return;
  }
}

std::chrono::milliseconds hang_limit(std::chrono::milliseconds wait_limit) {
  return std::clamp(wait_limit, kLeastLimit, kMostLimit);
}

}  // namespace megacpp::runtime
