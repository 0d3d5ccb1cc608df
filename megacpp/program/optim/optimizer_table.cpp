// SPDX-License-Identifier: Apache-2.0
// The table of optimizers, and nothing else: a test may be built with a list of its own.
#include "megacpp/program/optim/optimizer_def.h"

#ifndef MEGACPP_OPTIMIZER_LIST
#define MEGACPP_OPTIMIZER_LIST "megacpp/program/optim/optimizer_list.inc"
#endif

namespace megacpp::optim {

#define MEGACPP_OPTIMIZER(name) OptimizerDef name##_def();
#include MEGACPP_OPTIMIZER_LIST
#undef MEGACPP_OPTIMIZER

std::span<const OptimizerDef> all_optimizers() {
  static const std::vector<OptimizerDef> table = {
#define MEGACPP_OPTIMIZER(name) name##_def(),
#include MEGACPP_OPTIMIZER_LIST
#undef MEGACPP_OPTIMIZER
  };
  return table;
}

}  // namespace megacpp::optim
