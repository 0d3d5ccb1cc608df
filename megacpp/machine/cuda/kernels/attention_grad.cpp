// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/attention_plan.h"
#include "megacpp/machine/cuda/kernels/attention_wgmma.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr double kPlainGradFlops = 9e12;  // a second, of plain arithmetic on all multiprocessors

AttentionPlan attention_grad_plan_of(const ops::NodeView& view) { return {view, ops::kAttentionGradOperands}; }

Prepared prepare_attention_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const AttentionPlan plan = attention_grad_plan_of(view);
  if (plan.uses_tensor_cores()) return prepare_attention_grad_wgmma(plan, toolbox);
  const Function find_ranges = toolbox.function("attention", "attention_token_ranges");
  const auto function = [&](const std::string& name) {
    return toolbox.function("attention_grad", "attention_" + name + "_" + plan.dtype());
  };
  const Function find_delta = function("delta"), add_queries = function("dq"), add_keys = function("dkv");
  return {.run = [plan, find_ranges, find_delta, add_queries, add_keys](const Launch& launch) {
    AttentionGradParams params = attention_grad_params(plan, launch);
    // Workspace: ranges of token blocks, then delta.
    params.delta = device_pointer<float>(launch.workspace + static_cast<Address>(plan.token_range_bytes()));
    if (plan.has_token_ranges()) cuda::launch(find_ranges, plan.token_range_launch(), launch.stream, params.visibility);
    cuda::launch(find_delta, plan.row_launch(), launch.stream, params);
    cuda::launch(add_queries, plan.query_launch(), launch.stream, params);
    cuda::launch(add_keys, plan.key_launch(), launch.stream, params);
  }};
}

// A block walks the queries of its keys, those of all heads that share them.
double attention_grad_least_seconds(const ops::NodeView& view) {
  const AttentionPlan plan = attention_grad_plan_of(view);
  const auto queries = static_cast<double>(plan.walked_keys());
  const auto widths = static_cast<double>(plan.shape().dim) * plan.shape().group();
  if (plan.uses_tensor_cores()) return 14.5e-6 + queries * widths * 0.28e-9;
  const double walk = queries * (0.31e-6 + widths * 3.7e-9);
  return 3e-6 + std::max(walk, ops::op_def("attention_grad").cost(view).flops / kPlainGradFlops);
}

}  // namespace

Kernel attention_grad_kernel() {
  return {.op = "attention_grad",
          .workspace_bytes =
              [](const ops::NodeView& view) {
                const AttentionPlan plan = attention_grad_plan_of(view);
                const int64_t own =
                    plan.uses_tensor_cores() ? attention_grad_wgmma_bytes(plan) : plan.row_statistic_bytes();
                return plan.token_range_bytes() + own;
              },
          .least_seconds = attention_grad_least_seconds,
          .supports = supports_attention,
          .prepare = prepare_attention_grad};
}

}  // namespace megacpp::runtime::cuda
