// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/lane.h"

#include <array>

namespace megacpp::fit {

std::string_view loops_name(LaneLoops loops) {
  constexpr std::array<std::string_view, 3> kNames = {"", "off", "on"};
  return kNames.at(static_cast<size_t>(loops));
}

std::string to_text(const Lane& lane) {
  const std::string loops(loops_name(lane.loops));
  return lane.backend + " " + lane.hardware +
         (lane.placement ? " placement=" + std::string(base::text_of(*lane.placement)) : "") +
         (loops.empty() ? "" : " loops=" + loops);
}

}  // namespace megacpp::fit
