// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/stop_signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

constexpr int64_t kNever = -1;

std::atomic<bool> notes{false};         // a StopRequest exists
std::atomic<int64_t> noted_at{kNever};  // when the signal came that it has noted; nanoseconds of the monotonic clock
std::atomic<int> holders{0};
std::atomic<int> held{0};  // signals that were to end the process
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free,
              "a signal handler may not wait for a lock");

// Allowed in a signal handler, which the clocks of std::chrono are not by the standard's word.
int64_t monotonic_nanoseconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::nanoseconds(std::chrono::seconds(now.tv_sec)).count() + now.tv_nsec;
}

bool repeats_what_is_noted(int64_t now) {
  const int64_t first = noted_at.load();
  return first != kNever && now - first < std::chrono::nanoseconds(kOneRequest).count();
}

// Calls only what is safe in a signal handler. The signal is counted before the holders are: either they are seen here,
// or the last of them sees the signal.
void handle_stop_signal(int) {
  const int64_t now = monotonic_nanoseconds();
  int64_t never = kNever;
  if (notes.load() && noted_at.compare_exchange_strong(never, now)) return;
  if (repeats_what_is_noted(now)) return;
  held.fetch_add(1);
  if (holders.load() == 0) ::_exit(kInterruptedStatus);
}

}  // namespace

void handle_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction before = {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = handle_stop_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

StopRequest::StopRequest() {
  noted_at.store(kNever);
  MEGACPP_CHECK(!notes.exchange(true)) << "two stop requests at a time";
}

// What was noted stays: a signal that repeats it may come a moment after the work has ended.
StopRequest::~StopRequest() { notes.store(false); }

bool StopRequest::has_come() const { return noted_at.load() != kNever; }

HeldEnd::HeldEnd() { holders.fetch_add(1); }

HeldEnd::~HeldEnd() {
  if (holders.fetch_sub(1) == 1 && is_due()) ::_exit(kInterruptedStatus);
}

bool HeldEnd::is_due() const { return held.load() > 0; }

}  // namespace megacpp::base
