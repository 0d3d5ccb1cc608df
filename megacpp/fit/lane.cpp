// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/lane.h"

namespace megacpp::fit {

std::string to_text(const Lane& lane) {
  return lane.backend + " " + lane.hardware + (lane.placement.empty() ? "" : " placement=" + lane.placement) +
         (lane.loops.empty() ? "" : " loops=" + lane.loops);
}

}  // namespace megacpp::fit
