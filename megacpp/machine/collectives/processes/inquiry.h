// SPDX-License-Identifier: Apache-2.0
// Who waits for whom: processes ask each other about a call that has waited too long, so that E3102 names the chips it
// waits for and what they do. With the engine's lock held.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/processes/exchange.h"
#include "megacpp/machine/collectives/processes/liveness.h"

namespace megacpp::collectives {

class Inquiry {
 public:
  struct Parts {
    Liveness::Parts common;
    Exchange& exchange;
    Liveness& liveness;
  };
  explicit Inquiry(const Parts& parts) : parts_(parts) {}

  /// See OtherProcesses.
  void ask(EngineLock& lock, const InFlight& call, Waited& waited);
  /// FrameKind::who_waits and its answer.
  void on_question(int64_t process, const FrameHeader& header);
  void on_answer(int64_t process, const FrameHeader& header, const std::string& text);

 private:
  using ChipsByProcess = std::map<int64_t, std::vector<int64_t>>;  // all its chips that may be meant
  struct Answer {
    int64_t process = 0;
    std::string text;
  };

  ChipsByProcess awaited_of(const InFlight& call, FrameHeader& question) const;
  std::string chips_that_wait(const FrameHeader& question) const;

  const Parts parts_;
  int64_t questions_ = 0;
  std::map<int64_t, std::vector<Answer>> answers_;  // by number of the question
};

}  // namespace megacpp::collectives
