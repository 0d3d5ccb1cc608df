// SPDX-License-Identifier: Apache-2.0
// The gradients of a causal_conv for its input and for its weight, and the sum that is the gradient of a bias behind
// it, read the same tensor: they become one causal_conv_grad.
#pragma once

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::schedule {

/// Gradients that the target has no such kernel for stay. Of convolutions that share a gradient each is joined by
/// itself.
ir::Graph join_conv_grads(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
