// SPDX-License-Identifier: Apache-2.0
// A mesh in one process: every chip is a thread, and members of a group read straight from each other's buffers. There
// is no thread of its own: a call is posted by start(), and each member does its share of all its calls in flight
// whenever it is inside finish(). Waiting sleeps. Nothing is allocated after the groups are made.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "megacpp/collectives/communicator.h"

namespace megacpp::collectives {

struct InprocOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // longest wait without any progress of the waiter
};

class InprocWorld {
 public:
  explicit InprocWorld(int64_t chips, const InprocOptions& options = {});
  ~InprocWorld();

  int64_t chips() const;
  Communicator& communicator(int64_t chip);  // owned by the world

  /// As Communicator::abort of `chip`, from any thread.
  void abort(int64_t chip, const std::string& reason);

 private:
  class State;
  class Chip;
  std::unique_ptr<State> state_;
};

}  // namespace megacpp::collectives
