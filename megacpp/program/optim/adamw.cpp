// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/optim/adamw.h"

#include <cmath>

#include "megacpp/program/ops/builder.h"

namespace megacpp::optim {
namespace {

using ir::ValueId;
using ops::Builder;

// 1 / (1 - beta^step)
ValueId bias_correction(Builder& b, double beta, ValueId step) {
  const ValueId power = b.exp(b.scale(step, std::log(beta)));
  const ValueId numerator = b.constant(1.0);
  return b.div(numerator, b.sub(b.constant(1.0), power));
}

}  // namespace

std::vector<StateDef> adamw_state(bool (*applies)(const blocks::Parameter& parameter)) {
  return {{.prefix = "adam_m.", .doc = "decaying mean of gradients", .applies = applies},
          {.prefix = "adam_v.", .doc = "decaying mean of squared gradients", .applies = applies}};
}

std::vector<std::string_view> adamw_keys() { return {"optimizer.beta1", "optimizer.beta2", "optimizer.eps"}; }

std::vector<ValueId> adamw_shared(Builder& b, const Optimizer& settings, ValueId step) {
  const ValueId first = bias_correction(b, settings.beta1, step);
  return {first, bias_correction(b, settings.beta2, step)};
}

Direction adamw_direction(const DirectionInputs& in) {
  Builder& b = in.builder;
  const double beta1 = in.settings.beta1, beta2 = in.settings.beta2;
  const ValueId kept_m = b.scale(in.state[0], beta1);
  const ValueId new_m = b.scale(in.gradient, 1.0 - beta1);
  const ValueId m = b.add(kept_m, new_m);
  const ValueId kept_v = b.scale(in.state[1], beta2);
  const ValueId new_v = b.scale(b.square(in.gradient), 1.0 - beta2);
  const ValueId v = b.add(kept_v, new_v);
  const ValueId root = b.offset(b.sqrt(b.mul(v, in.shared[1])), in.settings.eps);
  return {.value = b.div(b.mul(m, in.shared[0]), root), .state = {m, v}};
}

OptimizerDef adamw_def() {
  return {.name = "adamw",
          .title = "AdamW",
          .doc = "first moment over the root of the second, both bias-corrected; two f32 numbers a weight",
          .state = adamw_state(nullptr),
          .keys = adamw_keys(),
          .shared = adamw_shared,
          .direction = adamw_direction};
}

}  // namespace megacpp::optim
