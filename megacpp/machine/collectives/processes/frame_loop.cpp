// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/frame_loop.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/thread.h"

namespace megacpp::collectives {
namespace {

using std::chrono::microseconds;

constexpr microseconds kIdleWait = std::chrono::milliseconds(50);    // for something to do
constexpr microseconds kDrivenWait = std::chrono::milliseconds(5);   // for the chip that takes turns to end
constexpr microseconds kClosingWait = std::chrono::milliseconds(1);  // for frames to leave
constexpr std::chrono::seconds kClosingLimit(2);                     // for all of them
// From the failure on, when all of them are words of it: those that live have read them by then, and the worlds of a
// process that ends one after the other wait for one that does not read at the same time.
constexpr std::chrono::milliseconds kFailedClosingLimit(500);

// While a chip waits: without sleep at first, which takes longer than a message does; then so that a sleep lasts a
// small part of the wait.
constexpr microseconds kAwake(1000);
constexpr int64_t kPartOfQuiet = 8;
// To ask MPI takes as long as all else of a turn: while they do not sleep, chips that wait for processes of their host
// alone ask less often.
constexpr int64_t kTurnsOfAPoll = 8;
constexpr microseconds kLongestPause(1000);

}  // namespace

FrameLoop::FrameLoop(CallEngine& engine, std::unique_ptr<Endpoint> endpoint, Client& client)
    : engine_(engine), endpoint_(std::move(endpoint)), client_(client), queue_(endpoint_->processes()) {}

void FrameLoop::begin() {
  thread_ = base::start_thread("messages between processes", [this] { run(); });
}

FrameLoop::~FrameLoop() {
  if (!thread_.joinable()) return;
  {
    const EngineLock lock(engine_.mutex);
    is_closing_ = true;
    const auto now = Clock::now();
    closing_limit_ = engine_.has_failed() ? failed_at_.value_or(now) + kFailedClosingLimit : now + kClosingLimit;
    wake();
  }
  thread_.join();
}

void FrameLoop::post(int64_t process, const FrameHeader& header, std::string text) {
  queue_.post(process, header, std::move(text));
}

void FrameLoop::flush() {
  if (!is_in_turn_) queue_.send(*endpoint_);
  if (is_needed()) wake();
}

void FrameLoop::wake() {
  if (driver_) return engine_.wake(*driver_);
  no_driver_.notify_one();
  endpoint_->wake();
}

// While a chip takes turns the thread does nothing.
void FrameLoop::run() {
  EngineLock lock(engine_.mutex);
  while (!is_closing_ || !may_close()) {
    if (driver_) {
      no_driver_.wait_for(lock, kDrivenWait);
    } else if (!take_turn(lock, Poll::always)) {
      const microseconds limit = is_closing_ ? kClosingWait : kIdleWait;
      lock.unlock();
      endpoint_->wait(limit);
      lock.lock();
    }
  }
}

bool FrameLoop::may_close() { return Clock::now() >= closing_limit_ || (queue_.is_empty() && endpoint_->is_flushed()); }

// An error here ends the run of all chips; turns go on, to tell the other processes.
bool FrameLoop::take_turn(EngineLock& lock, Poll poll) {
  if (is_in_turn_) return false;
  is_in_turn_ = true;
  bool is_busy = false;
  try {
    is_busy = pump(lock);
    if (poll == Poll::always || is_needed()) is_busy |= receive(lock);
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    engine_.fail(lock, {engine_.local().front(), std::string("messages between processes: ") + error.what()});
  }
  is_in_turn_ = false;
  return is_busy;
}

bool FrameLoop::receive(EngineLock& lock) {
  if (engine_.has_failed() && !failed_at_) failed_at_ = Clock::now();
  lock.unlock();
  const bool has_come = endpoint_->poll(*this);
  lock.lock();
  if (has_come) pump(lock);  // it may be all that a call waits for
  client_.on_polled(lock);
  return has_come;
}

bool FrameLoop::pump(EngineLock& lock) {
  const bool sent = queue_.send(*endpoint_);
  return client_.advance_calls(lock) || sent;
}

void FrameLoop::on_frame(int64_t process, std::span<const std::byte> frame) {
  FrameHeader header;
  MEGACPP_CHECK(frame.size() >= sizeof(FrameHeader)) << "a frame of " << frame.size() << " bytes";
  std::memcpy(&header, frame.data(), sizeof(FrameHeader));
  const std::span<const std::byte> bytes = frame.subspan(sizeof(FrameHeader));
  MEGACPP_CHECK(bytes.size() >= header.bytes) << "a frame that is cut off";
  EngineLock lock(engine_.mutex);
  client_.on_frame(lock, process, header, bytes.first(header.bytes));
}

void FrameLoop::on_lost(int64_t process, const std::string& why) {
  const EngineLock lock(engine_.mutex);
  queue_.close(process);
  client_.on_lost(process, why);
}

// The sleep before the next turn: none at first, and the longer the longer nothing has come.
microseconds FrameLoop::pause() const {
  const auto quiet = std::chrono::duration_cast<microseconds>(Clock::now() - last_event_);
  return quiet < kAwake ? microseconds(0) : std::min(quiet / kPartOfQuiet, kLongestPause);
}

std::optional<microseconds> FrameLoop::take_turn_of(EngineLock& lock, int64_t chip) {
  if (!driver_) {
    driver_ = chip;
    last_event_ = Clock::now();
  }
  if (driver_ != chip) return std::nullopt;
  const bool asks = ++turns_ % kTurnsOfAPoll == 0 || pause().count() > 0;
  if (take_turn(lock, asks ? Poll::always : Poll::if_needed)) {
    last_event_ = Clock::now();
    return microseconds(0);
  }
  const microseconds rest = pause();
  if (rest.count() > 0) return rest;
  lock.unlock();
  std::this_thread::yield();
  lock.lock();
  return rest;
}

// Also of one that was handed the turns and found its call complete.
void FrameLoop::stop_waiting(int64_t chip) {
  if (driver_ && driver_ != chip) return;
  driver_.reset();
  if (!engine_.wake_waiting() && is_needed()) wake();
}

}  // namespace megacpp::collectives
