// SPDX-License-Identifier: Apache-2.0
// The signals by which a terminal, a scheduler or a user asks a command to stop: SIGINT (Ctrl-C), SIGTERM and SIGHUP. A
// command ends with kInterruptedStatus (error.h) and never by the signal: at once, unless a StopRequest lets its work
// end where it can. What was ignored when the program started, as nohup does with SIGHUP, stays ignored.
#pragma once

namespace megacpp::base {

/// For main(), before any work.
void handle_stop_signals();

/// While it exists the first signal is only noted, for the work to stop by itself; any further one ends the process at
/// once. There is one at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// On any thread.
  bool has_come() const;
};

}  // namespace megacpp::base
