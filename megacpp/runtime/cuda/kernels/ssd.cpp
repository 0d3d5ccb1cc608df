// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/ssd_node.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_ssd(const ops::NodeView& view, Toolbox& toolbox) {
  const SsdNode node = ssd_node(view);
  const Floats y = floats_at(view.results, 0);
  const SsdSizes& z = node.sizes;
  const Function scan = toolbox.function("ssd_plain", "ssd_scan_" + std::to_string(ssd_lane_elements(z)));
  const int64_t blocks = node.is_empty() ? 0 : ceil_div(z.batch * z.heads * z.head_dim, kSsdWarps);
  return {[=](const Launch& l) {
    launch(scan, {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kSsdWarps * 32, 1, 1}}, l.stream,
           node.params(l, y.of(l.results)));
  }};
}

}  // namespace

Kernel ssd_kernel() { return {.op = "ssd", .supports = supports_ssd, .prepare = prepare_ssd}; }

}  // namespace megacpp::runtime::cuda
