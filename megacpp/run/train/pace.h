// SPDX-License-Identifier: Apache-2.0
// How fast a run goes once it is warm: the first step fills caches and pages and counts only where it is the only one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "megacpp/run/train/train.h"

namespace megacpp::train {

struct Pace {
  int64_t steps = 0;
  int64_t tokens = 0;
  double seconds = 0;
  bool is_warm = false;  // the first step is left out

  /// Nothing without a step.
  std::optional<double> tokens_per_second() const {
    return seconds > 0 ? std::optional(static_cast<double>(tokens) / seconds) : std::nullopt;
  }
  /// Nothing without a warm step.
  std::optional<double> step_seconds() const {
    return is_warm ? std::optional(seconds / static_cast<double>(steps)) : std::nullopt;
  }
};

Pace pace_of(const std::vector<StepReport>& reports);

}  // namespace megacpp::train
