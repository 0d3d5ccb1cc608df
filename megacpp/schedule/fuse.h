// SPDX-License-Identifier: Apache-2.0
// Clusters elementwise nodes of one shape, with the broadcasts and constants they read and the trailing reductions of
// their results, into `fused` nodes. Afterwards no elementwise, broadcast or constant node is left: single ones become
// fused nodes too, so a backend needs one tile machine instead of a kernel per op.
// Cluster members execute where the last of them stood; a node joins only if nothing outside the cluster reads a member
// before that, so the result is again in SSA order. Linear in the graph's size.
#pragma once

#include "megacpp/ir/graph.h"

namespace megacpp::schedule {

ir::Graph fuse(const ir::Graph& graph);

}  // namespace megacpp::schedule
