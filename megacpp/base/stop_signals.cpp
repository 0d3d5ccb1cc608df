// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "megacpp/base/error.h"

namespace megacpp::base {
namespace {

enum class OnSignal : uint8_t { exit, note, exit_as_noted };

std::atomic<OnSignal> on_signal{OnSignal::exit};
std::atomic<int> holders{0};
std::atomic<int> held{0};  // signals that were to end the process
static_assert(std::atomic<OnSignal>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may not wait for a lock");

// Calls only what is safe in a signal handler. Counted before the holders are: either they are seen here, or the last
// of them sees the signal.
void handle_stop_signal(int) {
  OnSignal first = OnSignal::note;
  if (on_signal.compare_exchange_strong(first, OnSignal::exit_as_noted)) return;
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
  OnSignal none = OnSignal::exit;
  MEGACPP_CHECK(on_signal.compare_exchange_strong(none, OnSignal::note)) << "two stop requests at a time";
}

StopRequest::~StopRequest() { on_signal.store(OnSignal::exit); }

bool StopRequest::has_come() const { return on_signal.load() == OnSignal::exit_as_noted; }

HeldEnd::HeldEnd() { holders.fetch_add(1); }

HeldEnd::~HeldEnd() {
  if (holders.fetch_sub(1) == 1 && is_due()) ::_exit(kInterruptedStatus);
}

bool HeldEnd::is_due() const { return held.load() > 0; }

}  // namespace megacpp::base
