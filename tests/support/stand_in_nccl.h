// SPDX-License-Identifier: Apache-2.0
// What the library that stands in for NCCL shows to tests. It moves nothing.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace megacpp::stand_in_nccl {

inline constexpr int kRemoteError = 6, kInProgress = 7;  // as NCCL has them

struct State {
  int version = 22809;
  int result = 0;              // of every call that may fail
  std::atomic<int> async = 0;  // where communicators stand, if not 0: kInProgress where their other members are silent
  std::string last_error = "socket closed";
  std::function<void()> on_join = {};  // called by whoever joins

  // What happened.
  std::atomic<int> joins = 0, aborts = 0, ends = 0;
  std::atomic<int> blocking = -1;  // of the last that was joined
};

/// Exported as megacpp_stand_in_nccl.
using GetState = State*();

}  // namespace megacpp::stand_in_nccl
