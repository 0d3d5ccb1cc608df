// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/ssd_grad_mma.h"
#include "megacpp/machine/cuda/kernels/ssd_grad_plain.h"

namespace megacpp::runtime::cuda {
namespace {

template <typename Run>
Prepared prepared(const SsdGradNode& node, Toolbox& toolbox) {
  return {[run = Run(node, toolbox)](const Launch& l) { run.run(l); }};
}

Prepared prepare_ssd_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const SsdGradNode node = ssd_grad_node(view);
  return node.is_for_tensor_cores() ? prepared<SsdGradMma>(node, toolbox) : prepared<SsdGradPlain>(node, toolbox);
}

int64_t ssd_grad_workspace(const ops::NodeView& view) {
  const SsdGradNode node = ssd_grad_node(view);
  return node.is_for_tensor_cores() ? SsdGradMma::workspace_bytes(node) : SsdGradPlain::workspace_bytes(node);
}

// A block walks the positions of a head, as the forward pass does.
double ssd_grad_least_seconds(const ops::NodeView& view) {
  const SsdGradNode node = ssd_grad_node(view);
  const SsdSizes& z = node.forward.sizes;
  const auto positions = static_cast<double>(z.seq);
  if (node.is_for_tensor_cores()) return 68e-6 + positions * 47e-9;
  return positions * (4.6e-6 + static_cast<double>(z.state * z.head_dim) * 2.9e-9);
}

}  // namespace

Kernel ssd_grad_kernel() {
  return {.op = "ssd_grad",
          .workspace_bytes = ssd_grad_workspace,
          .least_seconds = ssd_grad_least_seconds,
          .supports = supports_ssd,
          .prepare = prepare_ssd_grad};
}

}  // namespace megacpp::runtime::cuda
