// SPDX-License-Identifier: Apache-2.0
// Cuts a forward graph at block boundaries into consecutive pipeline stages. Every node runs in the stage of its
// scope's block: embed and batch in the first, final_norm, head and loss in the last. Values outside blocks that depend
// on weights or on the batch alone (rotation tables) run in each stage that reads them, and so stand inputs. Every
// other value that crosses a cut is handed along from stage to stage under one name.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::partition {

/// A value handed over: output of one stage and input of the next, both of this name.
struct Carry {
  std::string name;           // "carry.3"
  bool has_gradient = false;  // whether the loss depends on a trained weight through it: a cotangent comes back
  bool operator==(const Carry&) const = default;
};

struct Stage {
  ir::Graph graph;
  std::vector<Carry> carried_in, carried_out;
  std::vector<ir::ValueId> values;  // by value of the whole graph: the same here; index UINT32_MAX where it is absent
};

/// A weight that several stages read: each has the whole of it, and their gradients add up.
struct SharedWeight {
  std::string name;
  std::vector<size_t> stages;  // ascending
  bool operator==(const SharedWeight&) const = default;
};

struct StageCut {
  std::vector<Stage> stages;
  std::vector<SharedWeight> shared;
};

/// `loss` is a value of the graph; `first_blocks` are the first blocks of all stages but the first, ascending. Weights
/// that are `frozen`, by name, have no gradient.
StageCut cut_stages(const ir::Graph& graph, ir::ValueId loss, const std::vector<int64_t>& first_blocks,
                    const std::set<std::string>& frozen = {});

/// First blocks of all stages but the first. `wanted_cuts` (those the pattern's '|' marks make) are taken when they cut
/// into as many stages; else the stages are as equal as possible in floating-point operations, embedding, head and loss
/// included: the largest is smallest, and the rest is even. E1005 for more stages than blocks.
std::vector<int64_t> balanced_cuts(const ir::Graph& graph, int64_t stages,
                                   const std::vector<int64_t>& wanted_cuts = {});

}  // namespace megacpp::partition
