// SPDX-License-Identifier: Apache-2.0
// All processes tell each other what each has said (World::gather), in rounds that double the distance: each sends and
// receives log2(processes) messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/collectives/processes/liveness.h"

namespace megacpp::collectives {

/// Limits of an agreement that waits for a process.
struct AgreementTimeouts {
  std::chrono::milliseconds limit{};    // of the wait
  std::chrono::milliseconds silence{};  // without a sign of it
};

class Agreement {
 public:
  Agreement(const Liveness::Parts& parts, Liveness& liveness)
      : engine_(parts.engine), map_(parts.map), loop_(parts.loop), liveness_(liveness) {}

  /// Returns what every process passes, by process. Called without the engine's lock.
  std::vector<std::string> gather(const std::string& own, const AgreementTimeouts& timeouts);
  /// FrameKind::gather, with the lock.
  void on_gathered(const FrameHeader& header, const std::string& text);

 private:
  using Key = std::pair<int64_t, int64_t>;  // number of the agreement, and round
  using Clock = CallEngine::Clock;

  std::string await(EngineLock& lock, Key key, int64_t from, const AgreementTimeouts& timeouts);
  /// The words for a wait that has been too long; empty while it has not.
  std::string overdue(int64_t from, Clock::time_point begin, std::chrono::milliseconds limit,
                      const AgreementTimeouts& timeouts) const;
  [[noreturn]] void time_out(EngineLock& lock, const std::string& waited);

  CallEngine& engine_;
  const ProcessMap& map_;
  FrameLoop& loop_;
  Liveness& liveness_;
  int64_t count_ = 0;
  std::map<Key, std::string> gathered_;
};

}  // namespace megacpp::collectives
