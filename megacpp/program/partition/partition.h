// SPDX-License-Identifier: Apache-2.0
// One global program and the shardings on it become the program of one chip, the same for all chips of the mesh. One
// sweep in program order: each node's factors are split as its largest operands are, operands sharded otherwise are
// resharded, and sums over split factors stay partial as long as every reader allows it. Values that are cheap to make
// in any sharding (constants, broadcasts) are made where and as they are wanted.
// Inputs carry the attribute "sharding": a sharding's text, none for a whole copy on every chip, or "auto" for state
// that takes the sharding the first program that writes it leaves.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"

namespace megacpp::partition {

inline constexpr std::string_view kAutoSharding = "auto";

/// How a named input or output of the global program is sharded.
struct Placement {
  ir::TensorType whole;
  ir::Sharding sharding;
};
using Placements = std::map<std::string, Placement>;

struct Partitioned {
  ir::Graph graph;  // of one chip
  Placements inputs;
  Placements outputs;
  size_t forward_nodes = 0;  // nodes of the chip's program that come before Options::forward_nodes
};

struct Options {
  /// A reshard nobody asked for may not leave a chip with more bytes of a tensor that it gathers over an axis.
  int64_t max_replicated_bytes = INT64_MAX;
  /// The recipe key behind each axis, steps left out, for what to do about it: "model" -> "layout.tensor_parallel".
  std::map<std::string, std::string> degree_keys = {};
  /// Where the backward pass begins in the global program.
  size_t forward_nodes = SIZE_MAX;
};

/// `known` gives the placement of state that earlier programs of the step have left; "auto" inputs take it over. E1408
/// when a reshard would replicate too much. Whether state stays where it is: stable_state.h.
Partitioned partition(const ir::Graph& graph, const ir::Mesh& mesh, const Placements& known = {},
                      const Options& options = {});

}  // namespace megacpp::partition
