// SPDX-License-Identifier: Apache-2.0
// A program of one chip, or of the whole mesh, as StableHLO functions: one for the program, and one for each kind of
// block it repeats.
#pragma once

#include <string>

#include "megacpp/ir/graph.h"
#include "megacpp/ir/mesh.h"

namespace megacpp::emit {

struct FunctionOptions {
  bool is_rolled = true;  // blocks that repeat become calls of one function
};

/// "func.func private @name(inputs in order) -> (outputs in order)" and the functions it calls. Every op must have a
/// StableHLO form. `next_channel` numbers the collectives of a module.
std::string write_function(const std::string& name, const ir::Graph& graph, const ir::Mesh& mesh,
                           const FunctionOptions& options, int64_t& next_channel);

}  // namespace megacpp::emit
