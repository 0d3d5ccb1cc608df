// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/human_seconds.h"

#include <fmt/format.h>

namespace megacpp::base {

std::string human_seconds(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  if (seconds >= 10 * kDay) return fmt::format("{:.1f} days", seconds / kDay);
  if (seconds >= 10 * kHour) return fmt::format("{:.1f} h", seconds / kHour);
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", 1e3 * seconds) : fmt::format("{:.1f} us", 1e6 * seconds);
}

}  // namespace megacpp::base
