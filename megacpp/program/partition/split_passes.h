// SPDX-License-Identifier: Apache-2.0
// Splits one stage's training graph into programs of their own: forward and backward, or forward, backward_input (what
// the stage before waits for) and backward_weight (the rest, mostly gradients of weights). The graph holds the forward
// pass and, from node `forward_nodes` on, the backward pass as autodiff appends it: cotangents of carried-out values
// are inputs, those of carried-in values are outputs "cotangent.<name>". Values that later programs read are handed
// over as kept.<n>, straight from the program that makes them; they stay in a slot until the last of these has run.
#pragma once

#include <cstddef>
#include <string_view>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/partition/divide_graph.h"

namespace megacpp::partition {

/// Values kept for later programs.
inline constexpr std::string_view kKeptPrefix = "kept.";
/// Outputs of this prefix are what the stage before waits for.
inline constexpr std::string_view kCotangentPrefix = "cotangent.";

enum class Backward : uint8_t { whole, in_two_parts };

/// The parts are the programs, the crossings are the kept values. Inputs stand under their own names in every program
/// that reads them, so what a caller binds to one, batch or carried in, must last as long. Kept are neither views nor
/// broadcasts but what they show, nor what depends on weights or on the batch alone: programs make these again. Except
/// a weight that the forward pass has from other chips and the backward pass reads as it came: it is kept, once for all
/// micro-batches, as kept.weight.<n>. An output, and the state it donates, goes to the program that computes it.
Divided split_passes(const ir::Graph& graph, size_t forward_nodes, Backward backward);

}  // namespace megacpp::partition
