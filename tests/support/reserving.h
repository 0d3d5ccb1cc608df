// SPDX-License-Identifier: Apache-2.0
// What a compiler that places buffers itself may reserve, without one: parts of the plan.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::testing_support {

struct Reserving {
  double least = 1, expected = 1, most = 1;  // of the planned peak
  int64_t code = 0;
  bool is_asked_first = false;
};

inline fit::Reservation reserved(const memory::MemoryPlan& planned, const Reserving& parts) {
  const auto part = [&](double of_planned) {
    return std::llround(of_planned * static_cast<double>(planned.total_bytes)) + parts.code;
  };
  return {.least = std::max<int64_t>(part(parts.least), planned.state_bytes + parts.code),
          .expected = part(parts.expected),
          .most = part(parts.most),
          .least_code = parts.code,
          .code = parts.code,
          .state = planned.state_bytes,
          .alive = part(parts.expected) - parts.code,
          .is_asked_first = parts.is_asked_first};
}

inline fit::Reserve reserving(const Reserving& parts) {
  return [parts](const fit::StepProgram& step, const hw::Chip&) -> std::optional<fit::Reservation> {
    return reserved(step.compiled.stages[step.stage].memory, parts);
  };
}

}  // namespace megacpp::testing_support
