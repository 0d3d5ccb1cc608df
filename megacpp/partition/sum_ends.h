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
  /// Its one reader: a reshard, an op that is linear in it and leaves its type (add, sub, neg), or anything else.
  /// `other` for values with several readers and for outputs too.
  enum class Next : uint8_t { other, sum, reshard };
  Next next = Next::other;
  /// The last reshard of those that it reaches through such ops alone.
  std::optional<ir::NodeId> reshard = {};
};

/// By value.
std::vector<SumEnd> find_sum_ends(const ir::Graph& graph);

}  // namespace megacpp::partition
