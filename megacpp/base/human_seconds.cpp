// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/human_seconds.h"

#include <fmt/format.h>

namespace megacpp::base {

std::string human_seconds(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", 1e3 * seconds) : fmt::format("{:.1f} us", 1e6 * seconds);
}

}  // namespace megacpp::base
