// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/ssd_node.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_ssd_mma(const SsdNode& node, const Floats& y, Toolbox& toolbox) {
  const SsdSizes& z = node.sizes;
  const int heads = ssd_block_heads(z);
  const Function forward = toolbox.function("ssd_mma", "ssd_forward_" + std::to_string(heads));
  const int64_t blocks = node.is_empty() ? 0 : z.batch * z.heads / heads;
  const LaunchShape shape = {.grid = {static_cast<uint32_t>(blocks), 1, 1},
                             .block = {static_cast<uint32_t>(heads * kSsdHeadWarps * 32), 1, 1},
                             .shared_bytes = static_cast<uint32_t>(ssd_forward_shared_bytes(heads))};
  return {[=](const Launch& l) { launch(forward, shape, l.stream, node.params(l, y.of(l.results))); }};
}

Prepared prepare_ssd_plain(const SsdNode& node, const Floats& y, Toolbox& toolbox) {
  const SsdSizes& z = node.sizes;
  const Function scan = toolbox.function("ssd_plain", "ssd_scan_" + std::to_string(ssd_lane_elements(z)));
  const int64_t blocks = node.is_empty() ? 0 : ceil_div(z.batch * z.heads * z.head_dim, kSsdWarps);
  const LaunchShape shape = {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kSsdWarps * 32, 1, 1}};
  return {[=](const Launch& l) { launch(scan, shape, l.stream, node.params(l, y.of(l.results))); }};
}

Prepared prepare_ssd(const ops::NodeView& view, Toolbox& toolbox) {
  const SsdNode node = ssd_node(view);
  const Floats y = floats_at(view.results, 0);
  return node.is_for_tensor_cores() ? prepare_ssd_mma(node, y, toolbox) : prepare_ssd_plain(node, y, toolbox);
}

// A block walks the positions of a head: tensor cores in chunks, plain arithmetic one by one.
double ssd_least_seconds(const ops::NodeView& view) {
  const SsdNode node = ssd_node(view);
  const SsdSizes& z = node.sizes;
  const auto positions = static_cast<double>(z.seq);
  if (node.is_for_tensor_cores()) return 3e-6 + positions * 70e-9;
  const auto warps = static_cast<double>(z.batch * z.heads * z.head_dim);
  const auto elements = static_cast<double>(ssd_lane_elements(z));
  return 5e-6 + positions * std::max(0.5e-6 + elements * 0.25e-6, warps * 0.35e-9);
}

}  // namespace

Kernel ssd_kernel() {
  return {.op = "ssd", .least_seconds = ssd_least_seconds, .supports = supports_ssd, .prepare = prepare_ssd};
}

}  // namespace megacpp::runtime::cuda
