// SPDX-License-Identifier: Apache-2.0
// Processes are there, silent or gone, and one failure counts: where several processes fail, the one of which the
// arbiter hears first. The arbiter is the first process that is alive. The engine's lock is held, but for
// silent_successor().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/peer_memory.h"
#include "megacpp/machine/collectives/processes/frame_loop.h"
#include "megacpp/machine/collectives/processes/process_map.h"

namespace megacpp::collectives {

/// For waits that look for failures, while nothing comes.
inline constexpr std::chrono::milliseconds kLookAgain(20);

/// For a process to answer, and say who waits there: long enough for one that is busy, no longer than a user would look
/// at it, and little beside the wait before it.
std::chrono::milliseconds answer_limit(std::chrono::milliseconds wait_limit);

class Liveness {
 public:
  using Clock = CallEngine::Clock;
  struct Parts {
    CallEngine& engine;
    const ProcessMap& map;
    FrameLoop& loop;
  };
  explicit Liveness(const Parts& parts);

  void on_heard(int64_t process);
  void on_lost(int64_t process, const std::string& why);
  /// Its buffers could not be read: a failure, unless another is heard of that is its cause.
  void on_unreadable(const PeerGone& gone, const Call& call);

  /// See OtherProcesses.
  void propose(const Failure& failure);
  int64_t arbiter() const;
  bool is_arbiter_silent() const { return state_of(arbiter()).is_silent; }
  /// It was asked, and has not answered.
  void set_silent(int64_t process) { states_[static_cast<size_t>(process)].is_silent = true; }
  /// True when nothing has come from it since then, for so long.
  bool is_silent(int64_t process, Clock::time_point since, std::chrono::milliseconds limit) const;
  /// The reason why it is gone; absent: it is there.
  const std::optional<std::string>& lost(int64_t process) const { return state_of(process).lost; }
  /// Asks for a sign: any answer will do.
  void ask_for_sign(int64_t process);
  /// See World.
  std::optional<std::string> silent_successor(std::chrono::milliseconds limit);

  /// A process that has gone is a failure where something is still wanted of it, and none at the end of a run.
  /// `wanted_of`: the call that wants it; empty: none.
  void look_for_losses(EngineLock& lock, const std::function<std::string(int64_t process)>& wanted_of);

  /// Something has come that a thread may wait for, or a process is gone.
  std::condition_variable news;

 private:
  struct State {
    std::optional<std::string> lost = {};  // why
    bool is_silent = false;                // asked, and nothing has come since
    Clock::time_point heard = {};          // when its last frame came
  };
  struct Unreadable {
    int64_t process = 0;
    std::string what;  // " is gone (...) in all_gather ..."
    Clock::time_point since;
  };

  const State& state_of(int64_t process) const { return states_[static_cast<size_t>(process)]; }
  void end_all(const Failure& failure);

  CallEngine& engine_;
  const ProcessMap& map_;
  FrameLoop& loop_;
  std::vector<State> states_;             // by process
  std::optional<Unreadable> unreadable_;  // the first
};

}  // namespace megacpp::collectives
