// SPDX-License-Identifier: Apache-2.0
// A whole module for XLA: the mesh, one public function and what it calls. State that a program replaces is donated, so
// argument and result share a buffer on the device.
#pragma once

#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/emit/function.h"
#include "megacpp/program/partition/partition.h"

namespace megacpp::emit {

/// Who places the collectives: XLA, from a program over global shapes, or we, in the program of one chip.
enum class Placement : uint8_t { xla, megacpp };

/// A tensor that enters or leaves the module. Chips that each hold a part of a sum have it as one tensor with a leading
/// dimension, split over them.
struct Port {
  std::string name;
  /// Names along a new first dimension, `name` the first of them; empty: none. Batches and reports of a step have one
  /// more before it, for its micro-steps.
  std::vector<std::string> stacked;
  ir::TensorType whole;   // as the module sees it, padding of all chips included
  ir::TensorType local;   // bytes of one chip
  ir::Sharding sharding;  // of `whole`
};

struct Module {
  std::string text;
  std::vector<Port> arguments, results;
};

/// One program. `inputs` and `outputs` say how its tensors are sharded; what they do not name is replicated.
Module write_program(const ir::Graph& graph, const ir::Mesh& mesh, const partition::Placements& inputs,
                     const partition::Placements& outputs, Placement placement, const FunctionOptions& options = {});

}  // namespace megacpp::emit
