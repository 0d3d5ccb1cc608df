// SPDX-License-Identifier: Apache-2.0
// What the collectives of a chip's program move, read off the graph: from which inputs a value is made and which
// outputs it reaches. Both sweeps take time linear in the graph's size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

enum class Traffic : uint8_t {
  none,      // not a collective
  other,     // activations, counts, norms
  weight,    // an all_gather of what is made of weights alone, or becomes weights and nothing else
  gradient,  // a reduction of what is made of gradients alone, or becomes one
};

struct TrafficMap {
  std::vector<Traffic> traffic;  // by node
  /// By node: whether all that comes of it is state that is replaced, so that nothing in this program waits for it.
  /// What reads such a node is such a node.
  std::vector<bool> only_replaces_state;
  /// By node: whether it is made of weights alone, so that it could run first.
  std::vector<bool> is_of_weights;
};

TrafficMap map_traffic(const ir::Graph& graph);

/// By value: the gradient state that it is on its way to: it is added to it, or replaces it, at once or after moves
/// (collectives, slices) that compute nothing; empty: none. Cotangents, from which gradients are yet to be made, have
/// none.
std::vector<std::string> becomes_gradient(const ir::Graph& graph);

/// Whether the node only moves its operands about: collectives, slices, pads, reshapes.
bool only_moves(const ir::Node& node);

}  // namespace megacpp::schedule
