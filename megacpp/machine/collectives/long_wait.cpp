// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/long_wait.h"

#include <mutex>
#include <utility>

namespace megacpp::collectives {
namespace {

struct Listening {
  std::mutex mutex;  // of the listener: lines of several waits come one after the other
  LongWaitListener listener;
};

Listening& listening() {
  static Listening all;
  return all;
}

}  // namespace

LongWaitListener listen_to_long_waits(LongWaitListener listener) {
  const std::lock_guard lock(listening().mutex);
  return std::exchange(listening().listener, std::move(listener));
}

void tell_long_wait(const LongWait& wait) {
  const std::lock_guard lock(listening().mutex);
  if (listening().listener) listening().listener(wait);
}

}  // namespace megacpp::collectives
