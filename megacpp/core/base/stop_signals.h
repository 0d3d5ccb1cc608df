// SPDX-License-Identifier: Apache-2.0
// The signals by which a terminal, a scheduler or a user asks a command to stop: SIGINT (Ctrl-C), SIGTERM, SIGHUP, and
// SIGUSR1, which mpirun and srun hand on to all processes instead of ending them soon after. A command ends with
// kInterruptedStatus (error.h) and never by the signal: at once, unless a StopRequest lets its work end where it can.
// What was ignored when the program started, as nohup does with SIGHUP, stays ignored.
#pragma once

#include <chrono>

namespace megacpp::base {

/// Signals that come within this time of the one that a StopRequest has noted repeat it, and do nothing: `timeout` and
/// systemd signal the process and then its whole group, a launcher hands on what its processes got directly.
inline constexpr std::chrono::seconds kOneRequest{1};

/// For main(), before any work.
void handle_stop_signals();

/// While it exists the first signal is only noted, for the work to stop by itself; one that comes kOneRequest later or
/// more ends the process at once, or when the programs that it runs have ended (HeldEnd). There is one at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// On any thread.
  bool has_come() const;
};

/// While any exists, on any thread, a signal that would end the process at once is held: who runs other programs ends
/// these first, so that none outlives it. The last one that goes ends the process where a signal was held.
class HeldEnd {
 public:
  HeldEnd();
  ~HeldEnd();
  HeldEnd(const HeldEnd&) = delete;
  HeldEnd& operator=(const HeldEnd&) = delete;

  /// Whether the process is to end now.
  bool is_due() const;
};

}  // namespace megacpp::base
