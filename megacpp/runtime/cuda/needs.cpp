// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/needs.h"

#include "megacpp/base/stopwatch.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cuda/algorithm_search.h"
#include "megacpp/runtime/cuda/kernel.h"

namespace megacpp::runtime::cuda {

Needs needs_of(const ir::Graph& graph) {
  Needs needs;
  for (const ir::Node& node : graph.nodes()) {
    const Kernel* const kernel = find_kernel(node.op);
    if (kernel == nullptr || !kernel->add_needs) continue;
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    kernel->add_needs({operands, results, node.attrs}, needs);
  }
  return needs;
}

void serve(const Needs& needs, Toolbox& toolbox) {
  toolbox.load_seconds().code += base::seconds_of([&] { toolbox.generate(needs.sources); });
  toolbox.load_seconds().products += base::seconds_of([&] { choose_algorithms(toolbox, needs.products); });
}

}  // namespace megacpp::runtime::cuda
