// SPDX-License-Identifier: Apache-2.0
// What must hold of a graph between two passes of the compiler. A graph that fails is a defect of the pass that made
// it, so failing is MEGACPP_CHECK, and names the node. Reads the graph once; changes nothing.
#pragma once

#include <cstdint>

#include "megacpp/core/ir/graph.h"

namespace megacpp::ops {

enum class Form : uint8_t {
  built,      // by model/, autodiff/, partition/: no `fused` node yet
  clustered,  // by schedule/fuse: some fusible ops are in `fused` nodes, others not yet
  fused,      // by schedule/lower_elementwise: no fusible op is left outside `fused` nodes
};

/// Always: every op is known; operands are defined before use; stored result types equal inference; inputs and outputs
/// are named uniquely; a donated input exists, has the type of the output that takes it over, and is donated once.
void verify(const ir::Graph& graph, Form form);

}  // namespace megacpp::ops
