// SPDX-License-Identifier: Apache-2.0
// Whether a training that was started is over although its launcher is not: one that waits for a host that is cut off
// does so until TCP gives up, for hours, while every process of the training has ended by its own limits. The first
// process has the run directory for as long as it lives; what it does before and after is not seen.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "megacpp/core/base/process.h"

namespace megacpp::launch {

class StartWatch {
 public:
  /// `limit`: for the launcher, from when the training is seen to have ended.
  StartWatch(std::filesystem::path run, std::chrono::milliseconds limit);

  /// Looks, and says whether the launcher has had its time; to be asked again and again while it runs. Where all that
  /// it has started here has ended, and nobody has the run directory, the training has ended before it was seen there.
  bool is_overdue(base::Children children);
  /// What the last look said.
  bool was_overdue() const { return was_overdue_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::filesystem::path run_;
  std::chrono::milliseconds limit_;
  bool was_in_use_ = false;
  std::optional<Clock::time_point> ended_;  // seen to have
  bool was_overdue_ = false;
};

}  // namespace megacpp::launch
