// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/reservation.h"

#include <algorithm>
#include <cmath>

#include "megacpp/program/compile/compile.h"

namespace megacpp::fit {

std::optional<Reservation> reservation_of(const Reserve& reserve, const StepProgram& program, const hw::Chip& device) {
  if (reserve) return reserve(program, device);
  const memory::MemoryPlan& planned = program.compiled.stages[program.stage].memory;
  return Reservation{.least = planned.total_bytes,
                     .expected = planned.total_bytes,
                     .most = planned.total_bytes,
                     .state = planned.state_bytes,
                     .alive = planned.total_bytes};
}

Reservation corrected(Reservation reservation, double alive_bytes) {
  double factor = alive_bytes / static_cast<double>(std::max<int64_t>(1, reservation.alive));
  if (reservation.is_asked_first) factor = std::max(1.0, factor);
  const auto changed = [&](int64_t bytes, int64_t code) {
    return std::llround(factor * static_cast<double>(bytes - code)) + code;
  };
  reservation.least =
      std::max<int64_t>(changed(reservation.least, reservation.least_code), reservation.state + reservation.least_code);
  reservation.expected = changed(reservation.expected, reservation.code);
  reservation.most = changed(reservation.most, reservation.code);
  reservation.alive = std::llround(factor * static_cast<double>(reservation.alive));
  return reservation;
}

}  // namespace megacpp::fit
