// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/ssd_node.h"

#include <algorithm>
#include <bit>
#include <string>

#include "megacpp/program/ops/ssd_chunks.h"

namespace megacpp::runtime::cuda {

SsdNode ssd_node(const ops::NodeView& view) {
  const ir::TensorType& x = view.operands[SsdNode::kX];
  const ir::TensorType& b = view.operands[SsdNode::kB];
  const ir::Shape leading = {x.shape.begin(), x.shape.end() - 3};
  SsdNode node = {.sizes = {.batch = ir::num_elements(leading),
                            .seq = x.dim(-3),
                            .heads = x.dim(-2),
                            .head_dim = x.dim(-1),
                            .groups = b.dim(-2),
                            .state = b.dim(-1)},
                  .x = floats_at(view.operands, SsdNode::kX),
                  .dt = floats_at(view.operands, SsdNode::kDt),
                  .a = floats_at(view.operands, SsdNode::kA),
                  .b = floats_at(view.operands, SsdNode::kB),
                  .c = floats_at(view.operands, SsdNode::kC),
                  .positions = std::nullopt};
  const size_t operands = view.results.size() == 1 ? ops::kSsdOperands : ops::kSsdGradOperands;
  if (view.operands.size() > operands) node.positions = operands;
  return node;
}

SsdGradNode ssd_grad_node(const ops::NodeView& view) {
  const auto result = [&](size_t i) { return floats_at(view.results, i); };
  return {.forward = ssd_node(view),
          .dy = floats_at(view.operands, SsdNode::kDy),
          .dx = result(0),
          .ddt = result(1),
          .da = result(2),
          .db = result(3),
          .dc = result(4)};
}

base::Decision supports_ssd(const ops::NodeView& view) {
  const int64_t state = view.operands[SsdNode::kB].dim(-1);
  if (state <= kMostSsdState) return base::Decision::yes();
  return base::Decision::no("a state of " + std::to_string(state) + ", more than the " + std::to_string(kMostSsdState) +
                            " that a warp holds");
}

int64_t ssd_lane_elements(const SsdSizes& sizes) {
  const int64_t lanes = 32, elements = std::max<int64_t>(1, ceil_div(sizes.state, lanes));
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(elements)));
}

int ssd_block_heads(const SsdSizes& sizes) { return sizes.heads / sizes.groups % 2 == 0 ? 2 : 1; }

}  // namespace megacpp::runtime::cuda
