// SPDX-License-Identifier: Apache-2.0
// SwiGLU of experts moves into the products around it. Forward silu(x w_gate) * (x w_up) is one node, ragged_swiglu,
// which leaves gate and up too where something else reads them: the backward pass. There the product dy w_down^T, which
// is the gradient of silu(gate) * up, and what it means for gate and up are one node, ragged_swiglu_grad; it makes
// silu(gate) * up again where that is recomputed there. A library's dense products are faster than ours with it inside.
//
// Both stand where the last product stood that they are made of. What lay between and is read elsewhere (silu(gate),
// kept for a backward pass that stays as it is) stays, behind them.
#pragma once

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::schedule {

/// Products that the target has no such kernel for stay.
ir::Graph join_swiglu(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
