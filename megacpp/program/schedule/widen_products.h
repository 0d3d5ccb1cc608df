// SPDX-License-Identifier: Apache-2.0
// Turns convert(dot(a, b)) from bf16 to f32 into a dot with an f32 result, and likewise for every op that can choose
// its result dtype: products accumulate in f32 anyway, so weight gradients, and logits that are not read in bf16
// (narrow_operands.h), lose nothing on the way.
#pragma once

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

ir::Graph widen_products(const ir::Graph& graph);

}  // namespace megacpp::schedule
