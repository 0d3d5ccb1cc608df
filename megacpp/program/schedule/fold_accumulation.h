// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation, as early and as cheap as possible. Where an output replaces an input by adding to it,
// add(accumulator, dot(a, b)) becomes dot(a, b, accumulator), and likewise for every op that takes an addend: no
// temporary of the weight's size. Both forms move to where the gradient is made, so nothing is kept alive for the end
// of the program.
#pragma once

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

ir::Graph fold_accumulation(const ir::Graph& graph);

}  // namespace megacpp::schedule
