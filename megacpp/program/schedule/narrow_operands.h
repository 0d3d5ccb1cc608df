// SPDX-License-Identifier: Apache-2.0
// Takes convert(x) of a bf16 x to f32 away where all that reads it widens x as it reads it (OpDef::widens_operand):
// the loss reads logits as the head's product rounds them, at half the bytes, and a gradient in bf16 may take their
// place. Nothing is rounded elsewhere than in the program as written: before widen_products(), which would take the
// conversion, and the rounding with it, into the product.
#pragma once

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::schedule {

/// A conversion stays that an output or another op reads too, or an op that the target would not run on bf16.
ir::Graph narrow_operands(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
