// SPDX-License-Identifier: Apache-2.0
// Turns add(accumulator, dot(a, b)) into dot(a, b, accumulator) where the product has no other reader, and likewise for
// every op that takes an addend: gradients then accumulate inside the product, without a temporary of the weight's size.
#pragma once

#include "megacpp/ir/graph.h"

namespace megacpp::schedule {

ir::Graph fold_accumulation(const ir::Graph& graph);

}  // namespace megacpp::schedule
