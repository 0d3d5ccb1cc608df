// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/optim/optimizer_def.h"

namespace megacpp::optim {
namespace {

using ir::ValueId;

// velocity = momentum * velocity + gradient
Direction sgd_direction(const DirectionInputs& in) {
  ops::Builder& b = in.builder;
  const ValueId velocity = b.add(b.scale(in.state[0], in.settings.momentum), in.gradient);
  return {.value = velocity, .state = {velocity}};
}

}  // namespace

OptimizerDef sgd_def() {
  return {.name = "sgd",
          .title = "SGD with momentum",
          .doc = "decaying sum of gradients (heavy ball); one f32 number a weight",
          .state = {{.prefix = "sgd_velocity.", .doc = "decaying sum of gradients"}},
          .keys = {"optimizer.momentum"},
          .direction = sgd_direction};
}

}  // namespace megacpp::optim
