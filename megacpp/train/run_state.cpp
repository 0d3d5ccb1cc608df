// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/run_state.h"

namespace megacpp::train {

void initialise_weights(runtime::Executable& run, const std::vector<blocks::Parameter>& parameters, uint64_t seed) {
  for (const blocks::Parameter& parameter : parameters)
    blocks::initialise(parameter, seed, 0, state_as<float>(run, parameter.name));
}

}  // namespace megacpp::train
