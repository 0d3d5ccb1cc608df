// SPDX-License-Identifier: Apache-2.0
// Where a value of a global program goes when it goes to one place only: read off the graph before it is partitioned.
// The partitioner asks it how long partial sums may wait, and which of two reshards in a row counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "megacpp/ir/graph.h"

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

/// For the nodes from `first` on, appended since: the decomposition of a node with these results, which become `made`.
void extend_sum_ends(const ir::Graph& graph, uint32_t first, const std::vector<ir::ValueId>& made,
                     const std::vector<ir::ValueId>& results, std::vector<SumEnd>& ends);

}  // namespace megacpp::partition
