// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/kernels/rms_norm_plan.h"

#include <algorithm>
#include <bit>

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kNormThreads = 256;
constexpr int64_t kMostNormLanes = 512;
constexpr int64_t kMostNormGroups = 65'535;  // block rows of a grid
constexpr int64_t kNormGradBlocks = 528;     // four for each multiprocessor of an H200

}  // namespace

int64_t RmsNormPlan::grad_blocks() const {
  return std::clamp<int64_t>(row_blocks(), 1, std::max<int64_t>(1, kNormGradBlocks / groups));
}

RmsNormPlan plan_rms_norm(const ops::NodeView& view) {
  const ir::TensorType& x = view.operands[0];
  const int64_t size = view.attrs.integer("group_size", 0), width = x.dim(-1);
  const int64_t group = size == 0 ? width : size;
  const int64_t wide = 16 / ir::dtype_bytes(x.dtype);
  RmsNormPlan plan{.rows = x.elements() / width,
                   .width = width,
                   .group = group,
                   .groups = width / group,
                   .vector = group % wide == 0 ? wide : 1,
                   .held = 8,
                   .lanes = 1,
                   .threads = kNormThreads,
                   .spread = "single"};
  const int64_t vectors = group / plan.vector;
  if (plan.vector > 1) {
    plan.held = vectors <= 2 * kMostNormLanes ? 2 : 4;
    plan.spread = plan.held == 2 ? "two" : "four";
  }
  const int64_t lanes = (vectors + plan.held - 1) / plan.held;
  plan.lanes =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(lanes, 1, kMostNormLanes))));
  plan.threads = std::max(kNormThreads, plan.lanes);
  return plan;
}

base::Decision supports_rms_norm(const ops::NodeView& view) {
  const RmsNormPlan plan = plan_rms_norm(view);
  return plan.groups <= kMostNormGroups ? base::Decision::yes() : base::Decision::no("more than 65535 groups in a row");
}

base::Decision supports_rms_norm_grad(const ops::NodeView& view) {
  const RmsNormPlan plan = plan_rms_norm(view);
  const int64_t most = plan.lanes * plan.held * plan.vector;
  if (plan.group > most)
    return base::Decision::no("groups of " + std::to_string(plan.group) + " elements; registers keep " +
                              std::to_string(most));
  return supports_rms_norm(view);
}

}  // namespace megacpp::runtime::cuda
