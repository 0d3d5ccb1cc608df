// SPDX-License-Identifier: Apache-2.0
// Parameters that an optimizer's update is tried on: a weight that decays, one that does not, and one that is moved by
// other means than a gradient.
#pragma once

#include <vector>

#include "megacpp/blocks/parameter.h"

namespace megacpp::testing_support {

inline std::vector<blocks::Parameter> update_parameters() {
  using blocks::Init;
  return {{"embed.weight", {3, 2}, {}, Init::normal(1.0)},
          {"block00.A.norm.weight", {4}, {}, Init::ones(), false},
          {"block01.E.expert_bias", {4}, {}, Init::zeros(), false, false}};
}

}  // namespace megacpp::testing_support
