// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/required_kernels.h"

#include "megacpp/core/base/stopwatch.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/shared_algorithms.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

void add_required(const ir::Graph& graph, RequiredKernels& required) {
  for (const ir::Node& node : graph.nodes()) {
    const Kernel* const kernel = find_kernel(node.op);
    if (kernel == nullptr || !kernel->add_required) continue;
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    kernel->add_required({operands, results, node.attrs}, required);
  }
}

void prepare_kernels(const RequiredKernels& required, Toolbox& toolbox, collectives::World& world) {
  toolbox.load_seconds().code += base::seconds_of([&] { toolbox.generate(required.sources); });
  toolbox.load_seconds().products +=
      base::seconds_of([&] { choose_algorithms_together(world, toolbox, required.products); });
}

void prepare_same_kernels(const RequiredKernels& required, const Toolbox& first, Toolbox& other) {
  other.load_seconds().code += base::seconds_of([&] { other.generate(required.sources); });
  other.load_seconds().products += base::seconds_of([&] { take_algorithms(first, other, required.products); });
}

}  // namespace megacpp::runtime::cuda
