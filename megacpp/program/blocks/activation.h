// SPDX-License-Identifier: Apache-2.0
// Nonlinearities that several families have, from elementwise ops.
#pragma once

#include "megacpp/program/ops/builder.h"

namespace megacpp::blocks {

/// The tanh form of GELU: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
ir::ValueId gelu_tanh(ops::Builder& b, ir::ValueId x);

/// cap tanh(x / cap)
ir::ValueId soft_capped(ops::Builder& b, ir::ValueId x, double cap);

}  // namespace megacpp::blocks
