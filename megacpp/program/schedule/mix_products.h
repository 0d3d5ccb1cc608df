// SPDX-License-Identifier: Apache-2.0
// Turns dot(convert(x), w) of a bf16 x with an f32 w into mixed_dot(x, w): a router multiplies in f32, and what it
// reads would otherwise be written once more at twice the bytes, and kept for the gradient of its weights.
#pragma once

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::schedule {

/// Products that the target has no kernel for stay.
ir::Graph mix_products(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
