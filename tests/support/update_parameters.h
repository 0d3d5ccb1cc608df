// SPDX-License-Identifier: Apache-2.0
// Parameters that an optimizer's update is tried on: an embedding, a gain that does not decay, matrices of both
// orientations and one for each expert, and a bias that is moved by other means than a gradient.
#pragma once

#include <vector>

#include "megacpp/program/blocks/parameter.h"

namespace megacpp::testing_support {

inline std::vector<blocks::Parameter> update_parameters() {
  using blocks::Init;
  using blocks::ParameterKind;
  return {{"embed.weight", {3, 2}, {}, Init::normal(1.0), ParameterKind::embedding},
          {"block00.A.norm.weight", {4}, {}, Init::ones(), ParameterKind::norm},
          {"block01.E.expert_bias", {4}, {}, Init::zeros(), ParameterKind::bias, false},
          {"block00.A.wq", {3, 5}, {}, Init::normal(1.0)},
          {"block00.A.wo", {5, 3}, {}, Init::normal(1.0)},
          {"block01.E.w_up", {2, 3, 4}, {}, Init::normal(1.0)}};
}

}  // namespace megacpp::testing_support
