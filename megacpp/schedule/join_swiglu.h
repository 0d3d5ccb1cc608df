// SPDX-License-Identifier: Apache-2.0
// SwiGLU moves into the products around it. Forward silu(x w_gate) * (x w_up) is one node, which leaves gate and up too
// where something else reads them: the backward pass. There the product dy w_down^T, which is the gradient of
// silu(gate)
// * up, and what it means for gate and up are one node; it makes silu(gate) * up again where that is recomputed there.
// Of experts these are ragged_swiglu and ragged_swiglu_grad; of dense feed-forwards, on targets that want it
// (Target::joins_dense_swiglu), dense_swiglu and dense_swiglu_grad.
//
// Both stand where the last product stood that they are made of. What lay between and is read elsewhere (silu(gate),
// kept for a backward pass that stays as it is) stays, behind them.
#pragma once

#include "megacpp/ir/graph.h"
#include "megacpp/schedule/target.h"

namespace megacpp::schedule {

/// Products that the target has no such kernel for stay.
ir::Graph join_swiglu(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
