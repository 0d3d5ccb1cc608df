// SPDX-License-Identifier: Apache-2.0
// What a plugin answers when a call fails, and the error of ours it becomes. The decision rests on the status code and
// on what was being done; of messages that memory ran out, the numbers are read (oom_message.h). The message itself is
// kept whole in the failure.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::pjrt {

/// The codes of the C API, which are those of absl::Status.
enum class StatusCode {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};
std::string_view status_name(StatusCode code);  // "RESOURCE_EXHAUSTED"

/// What was asked of the plugin when it failed.
enum class Phase { set_up, create_client, create_topology, compile, load, transfer, execute, query };
std::string_view phase_name(Phase phase);  // "compiling"

struct Failure {
  StatusCode code = StatusCode::unknown;
  std::string message = {};
};

/// RESOURCE_EXHAUSTED is an out-of-memory class of its phase (E2002 compiling, E2003 loading, E2004 on the device).
/// A program the plugin has no implementation for is E1505; a topology it does not take is E1506. The rest is E3201.
base::Code code_of(StatusCode code, Phase phase);

/// A call that failed for any other reason than memory.
class PluginError : public base::Error {
 public:
  PluginError(Failure failure, Phase phase, const std::string& plugin);
  const Failure& failure() const { return failure_; }
  Phase phase() const { return phase_; }

 private:
  Failure failure_;
  Phase phase_;
};

/// memory::OutOfMemory where memory ran out, PluginError otherwise.
[[noreturn]] void raise_failure(Failure failure, Phase phase, const std::string& plugin);

}  // namespace megacpp::runtime::pjrt
