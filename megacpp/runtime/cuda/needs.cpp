// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/needs.h"

#include <chrono>

#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cuda/algorithm_search.h"
#include "megacpp/runtime/cuda/kernel.h"

namespace megacpp::runtime::cuda {
namespace {

template <typename Work>
double seconds_to(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

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
  toolbox.load_seconds().code += seconds_to([&] { toolbox.generate(needs.sources); });
  toolbox.load_seconds().products += seconds_to([&] { choose_algorithms(toolbox, needs.products); });
}

}  // namespace megacpp::runtime::cuda
