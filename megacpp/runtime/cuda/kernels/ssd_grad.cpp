// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/ssd_grad_mma.h"
#include "megacpp/runtime/cuda/kernels/ssd_grad_plain.h"

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

}  // namespace

Kernel ssd_grad_kernel() {
  return {
      .op = "ssd_grad", .workspace_bytes = ssd_grad_workspace, .supports = supports_ssd, .prepare = prepare_ssd_grad};
}

}  // namespace megacpp::runtime::cuda
