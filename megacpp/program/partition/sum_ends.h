// SPDX-License-Identifier: Apache-2.0
// Where a value of a global program goes when it goes to one place only: read off the graph before it is partitioned.
// The partitioner asks it how long partial sums may wait, and which of two reshards in a row counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::partition {

struct SumEnd {
  /// Its one reader: a reshard, an op that is linear in it and makes it no larger (add, scaling, reduce), or anything
  /// else. `other` for values with several readers and for outputs too.
  enum class Next : uint8_t { other, linear, reshard };
  Next next = Next::other;
  /// The last reshard of those that it reaches through such ops alone, its type unchanged.
  std::optional<ir::NodeId> reshard = {};
  /// Elements of what such ops leave in the end, for each of its own.
  double left = 1.0;
};

/// By value.
std::vector<SumEnd> find_sum_ends(const ir::Graph& graph);

/// Nodes appended to a graph in place of one of its nodes.
struct Decomposition {
  uint32_t first;                           // of these nodes
  const std::vector<ir::ValueId>& results;  // of the node
  const std::vector<ir::ValueId>& made;     // what they become
};
void extend_sum_ends(std::vector<SumEnd>& ends, const ir::Graph& graph, const Decomposition& decomposition);

}  // namespace megacpp::partition
