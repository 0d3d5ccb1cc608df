// SPDX-License-Identifier: Apache-2.0
// Splits collectives into start and done, with work in between, in a program whose order is settled. Nothing else moves
// but what adds reduced gradients up.
// - Weights are gathered ahead: while a block computes, those of the `prefetch`-th next block travel.
// - Reductions, and what is exchanged within a block, start as soon as their operands are there, and are done before
//   their first reader.
// - Gradients, and updated weights, that only replace state are done when those of the `prefetch`-th next block start,
//   or at the end.
// What would have nothing to wait beside stays one node. Takes n log n time in the graph's size.
#pragma once

#include <cstdint>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

struct OverlapPolicy {
  int64_t prefetch = 1;  // blocks
};

/// Collectives over the same axes that are started from the oldest one not done, both counted.
inline constexpr int64_t kMaxStarted = 64;

ir::Graph overlap_collectives(const ir::Graph& graph, const OverlapPolicy& policy);

}  // namespace megacpp::schedule
