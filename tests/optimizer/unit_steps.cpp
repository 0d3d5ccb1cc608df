// SPDX-License-Identifier: Apache-2.0
// Steps of nearly the same size for every weight: a decaying sum of gradients, divided by its own size.
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/optim/optimizer_def.h"

namespace megacpp::optim {
namespace {

Direction unit_direction(const DirectionInputs& in) {
  ops::Builder& b = in.builder;
  const ir::ValueId sum = b.add(b.scale(in.state[0], in.settings.momentum), in.gradient);
  return {.value = b.mul(sum, b.rsqrt(b.offset(b.mul(sum, sum), in.settings.eps))), .state = {sum}};
}

}  // namespace

OptimizerDef unit_steps_def() {
  return {.name = "unit_steps",
          .title = "unit steps",
          .doc = "decaying sum of gradients, divided by its size; one f32 number a weight",
          .state = {{.prefix = "unit_sum.", .doc = "decaying sum of gradients"}},
          .keys = {"optimizer.momentum", "optimizer.eps"},
          .direction = unit_direction};
}

}  // namespace megacpp::optim
