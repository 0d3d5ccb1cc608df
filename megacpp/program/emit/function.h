// SPDX-License-Identifier: Apache-2.0
// A program of one chip, or of the whole mesh, as StableHLO functions: one for the program, and one for each kind of
// block it repeats. Passes over many blocks are loops (block_loop.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/emit/block_loop.h"
#include "megacpp/program/ops/hlo_writer.h"

namespace megacpp::emit {

struct FunctionOptions {
  bool has_loops = true;  // passes over blocks that repeat are loops; else a call for each block
  ops::CompilerTraits compiler = {};
};

/// One parameter or result of a function: a tensor, or several of one type stacked along a new first dimension.
struct Slot {
  std::vector<std::string> names;
  bool is_stack() const { return names.size() > 1; }
};

struct FunctionRequest {
  std::string name;
  const Outlined& program;
  std::vector<Pass> passes = {};  // written as loops
  std::vector<Slot> inputs;       // every input of the graph stands in one of them
  std::vector<Slot> outputs;      // names of outputs; others are left out
};

/// "func.func private @name(inputs) -> (outputs)" and the functions it calls. Every op must have a StableHLO form.
/// `next_channel` numbers the collectives of a module.
std::string write_function(const FunctionRequest& request, const ir::Mesh& mesh, const FunctionOptions& options,
                           int64_t& next_channel);

/// A dimension of this size before the others.
ir::Shape with_first(int64_t size, ir::Shape shape);
/// The type of a slot whose tensors have this type.
ir::TensorType slot_type(const Slot& slot, ir::TensorType type);

}  // namespace megacpp::emit
