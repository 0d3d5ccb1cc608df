// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/attention_plan.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

AttentionPlan attention_grad_plan_of(const ops::NodeView& view) { return {view, ops::kAttentionGradOperands}; }

// Workspace: ranges of token blocks, then delta.
AttentionGradParams attention_grad_params(const AttentionPlan& plan, const Launch& launch) {
  return {.visibility = plan.visibility(launch.operands, launch.workspace),
          .q = device_pointer<>(launch.operands[0]),
          .k = device_pointer<>(launch.operands[1]),
          .v = device_pointer<>(launch.operands[2]),
          .out = device_pointer<>(launch.operands[3]),
          .lse = device_pointer<const float>(launch.operands[4]),
          .dout = device_pointer<>(launch.operands[5]),
          .delta = device_pointer<float>(launch.workspace + static_cast<Address>(plan.token_range_bytes())),
          .dq = device_pointer<>(launch.results[0]),
          .dk = device_pointer<>(launch.results[1]),
          .dv = device_pointer<>(launch.results[2])};
}

Prepared prepare_attention_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const AttentionPlan plan = attention_grad_plan_of(view);
  const Function find_ranges = toolbox.function("attention", "attention_token_ranges");
  const auto function = [&](const std::string& name) {
    return toolbox.function("attention_grad", "attention_" + name + "_" + plan.dtype());
  };
  const Function find_delta = function("delta"), add_queries = function("dq"), add_keys = function("dkv");
  return {.run = [plan, find_ranges, find_delta, add_queries, add_keys](const Launch& launch) {
    const AttentionGradParams params = attention_grad_params(plan, launch);
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
                return plan.token_range_bytes() + plan.row_statistic_bytes();
              },
          .supports = supports_attention,
          .prepare = prepare_attention_grad};
}

}  // namespace megacpp::runtime::cuda
