// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/activation.h"

#include <cmath>
#include <numbers>

namespace megacpp::blocks {

using ir::ValueId;

ValueId gelu_tanh(ops::Builder& b, ValueId x) {
  const ValueId cubic = b.mul(x, b.offset(b.scale(b.square(x), 0.044715), 1.0));
  const ValueId t = b.tanh(b.scale(cubic, std::sqrt(2.0 / std::numbers::pi)));
  const ValueId half_x = b.scale(x, 0.5);
  const ValueId one_plus_t = b.offset(t, 1.0);
  return b.mul(half_x, one_plus_t);
}

ValueId soft_capped(ops::Builder& b, ValueId x, double cap) { return b.scale(b.tanh(b.scale(x, 1 / cap)), cap); }

}  // namespace megacpp::blocks
