// SPDX-License-Identifier: Apache-2.0
// A pass over blocks as one loop: what an iteration hands to the next is carried, what is needed later is collected
// into stacks, and stacks of state are replaced in place where nobody else reads them.
#pragma once

#include <functional>
#include <vector>

#include "megacpp/program/emit/block_loop.h"
#include "megacpp/program/emit/function_values.h"

namespace megacpp::emit {

/// Calls the function of a piece of the graph.
using CallPiece = std::function<std::vector<ops::HloValue>(size_t piece, const std::vector<ops::HloValue>& operands)>;

/// Afterwards `values` knows what the pass made.
void write_loop(ops::HloWriter& writer, const ir::Graph& graph, const Pass& pass, FunctionValues& values,
                const CallPiece& call);

}  // namespace megacpp::emit
