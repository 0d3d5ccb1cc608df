// SPDX-License-Identifier: Apache-2.0
// Chooses the order of nodes that keeps the fewest bytes alive: tries the order as written and a greedy one (always the
// ready node that frees most), simulates both and keeps the better. n log n in the graph's size.
#pragma once

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

ir::Graph order_for_low_peak(const ir::Graph& graph);

/// Most bytes of node results alive at once when nodes run in graph order; inputs and outputs in their place are not
/// counted.
int64_t simulated_peak(const ir::Graph& graph);

}  // namespace megacpp::schedule
