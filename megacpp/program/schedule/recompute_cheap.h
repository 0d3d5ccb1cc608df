// SPDX-License-Identifier: Apache-2.0
// Values that only elementwise work reads later are made again where they are read, instead of being written, kept
// and read back: SwiGLU keeps its gate, not the gate's logistic too.
//
// Takes a graph whose elementwise work stands in `fused` nodes. An output of one leaves it as part of its program:
// for all its readers, or for those behind the last reader that is no `fused` node of the same iteration shape. That is
// done only where
//  - `fused` nodes together read and write fewer bytes than before: what readers must read instead is counted;
//  - at no node more bytes are alive: what a reader needs is held longer only while at least as many bytes of the
//    values that it replaces are not (inputs are there anyway);
//  - what is computed again is at most `ops_per_byte` scalar ops for each byte that is not moved.
// The same ops run on the same numbers. In bf16 readers get them as registers have them, without the rounding of a
// store, as inside any cluster; what is compared for equality keeps its rounding, and what its maker compared does
// not start from a number that was rounded since. Nearly linear in the graph's size.
#pragma once

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

ir::Graph recompute_cheap(const ir::Graph& graph, double ops_per_byte);

}  // namespace megacpp::schedule
