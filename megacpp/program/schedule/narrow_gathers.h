// SPDX-License-Identifier: Apache-2.0
// Turns convert(reshard(weight)) from f32 to bf16 into reshard(convert(weight)): a chip narrows its own part of a
// weight before the parts are gathered, so half the bytes travel and half are held. Gradients go their way back in f32
// as before. For programs with their backward pass, before they are partitioned.
#pragma once

#include <cstddef>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

struct NarrowGathers {
  ir::Graph graph;
  size_t forward_nodes = 0;  // where the backward pass begins now
};
/// `forward_nodes`: where the backward pass begins in `graph`.
NarrowGathers narrow_gathers(const ir::Graph& graph, size_t forward_nodes = 0);

/// True for a convert from f32 to a narrow dtype.
bool narrows(const ir::Graph& graph, const ir::Node& node);

}  // namespace megacpp::schedule
