// SPDX-License-Identifier: Apache-2.0
// `fused` nodes of one iteration shape that read the same tensor become one, which reads it once: the gradients of
// SwiGLU's gate and up both read that of their product.
//
// The earlier of two moves to where the later stands. That is done only where nothing reads what it leaves before, so
// that there is no path between them, and where all it reads is alive there anyway: at no node more bytes are alive,
// and fewer are moved. Reductions must fold the same dimensions, no collective may stand between the two, and the
// limits of tile_builder.h hold. Linear in the graph's size.
#pragma once

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

ir::Graph merge_siblings(const ir::Graph& graph);

}  // namespace megacpp::schedule
