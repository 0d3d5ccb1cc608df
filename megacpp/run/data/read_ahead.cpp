// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/read_ahead.h"

#include <chrono>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/thread.h"

namespace megacpp::data {

ReadAhead::ReadAhead(Fill fill, const ReadAheadOptions& options)
    : fill_(std::move(fill)),
      options_(options),
      // One more than is ahead: the reader holds a slot while it stages it.
      ring_(static_cast<size_t>(options.steps_ahead * options.micro_steps + 1), options.like),
      thread_(base::start_thread("reading data ahead", [this] { run(); })) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  taken_changed_.notify_one();
  thread_.join();
}

void ReadAhead::run() {
  const int64_t slots = std::ssize(ring_), count = (options_.end_step - options_.first_step) * options_.micro_steps;
  for (int64_t at = 0; at < count; ++at) {
    {
      std::unique_lock lock(mutex_);
      taken_changed_.wait(lock, [&] { return stopped_ || at - released_ < slots; });
      if (stopped_) return;
    }
    std::exception_ptr failure;
    try {
      fill_(options_.first_step + at / options_.micro_steps, at % options_.micro_steps,
            ring_[static_cast<size_t>(at % slots)]);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (failure) {
        failure_ = failure;
      } else {
        filled_ = at + 1;
      }
    }
    filled_changed_.notify_one();
    if (failure) return;
  }
}

const MicroBatch& ReadAhead::next() {
  std::unique_lock lock(mutex_);
  released_ = taken_;
  taken_changed_.notify_one();
  if (filled_ <= taken_ && !failure_) {
    const auto start = std::chrono::steady_clock::now();
    filled_changed_.wait(lock, [&] { return filled_ > taken_ || failure_; });
    if (taken_ > 0) {
      ++stalls_.count;
      stalls_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  }
  if (filled_ <= taken_) std::rethrow_exception(failure_);
  return ring_[static_cast<size_t>(taken_++ % std::ssize(ring_))];
}

Stalls ReadAhead::take_stalls() {
  const std::lock_guard lock(mutex_);
  return std::exchange(stalls_, {});
}

}  // namespace megacpp::data
