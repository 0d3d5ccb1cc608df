// SPDX-License-Identifier: Apache-2.0
// Elementwise work as `fused` nodes, so that a backend needs one tile machine instead of a kernel per op. Both passes
// are linear in the graph's size and leave SSA order.
#pragma once

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

/// Clusters elementwise nodes of one shape, with the broadcasts and constants they read and the trailing reductions of
/// their results, into `fused` nodes of two ops and more. Members execute where the last of them stood; a node joins
/// only if nothing outside the cluster reads a member before that.
ir::Graph fuse(const ir::Graph& graph);

/// What these clusters are made of: elementwise nodes, and reductions of trailing dimensions.
bool is_fusible(const ir::Graph& graph, const ir::Node& node);

/// Turns every elementwise node, trailing reduction, broadcast and constant that is left into a `fused` node of its
/// own.
ir::Graph lower_elementwise(const ir::Graph& graph);

}  // namespace megacpp::schedule
