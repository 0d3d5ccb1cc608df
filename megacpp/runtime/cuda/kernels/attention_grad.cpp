// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/attention_plan.h"
#include "megacpp/runtime/cuda/kernels/attention_wgmma.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

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
          .supports = supports_attention,
          .prepare = prepare_attention_grad};
}

}  // namespace megacpp::runtime::cuda
