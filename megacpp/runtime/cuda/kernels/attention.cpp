// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/attention_plan.h"
#include "megacpp/runtime/cuda/kernels/attention_wgmma.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

AttentionPlan attention_plan_of(const ops::NodeView& view) { return {view, ops::kAttentionOperands}; }

Prepared prepare_attention(const ops::NodeView& view, Toolbox& toolbox) {
  const AttentionPlan plan = attention_plan_of(view);
  if (plan.uses_tensor_cores()) return prepare_attention_wgmma(plan, toolbox);
  const Function find_ranges = toolbox.function("attention", "attention_token_ranges");
  const Function attend = toolbox.function("attention", "attention_" + plan.dtype());
  return {.run = [plan, find_ranges, attend](const Launch& launch) {
    const AttentionParams params = attention_params(plan, launch);
    if (plan.has_token_ranges()) cuda::launch(find_ranges, plan.token_range_launch(), launch.stream, params.visibility);
    cuda::launch(attend, plan.query_launch(), launch.stream, params);
  }};
}

}  // namespace

Kernel attention_kernel() {
  return {.op = "attention",
          .workspace_bytes = [](const ops::NodeView& view) { return attention_plan_of(view).token_range_bytes(); },
          .supports = supports_attention,
          .prepare = prepare_attention};
}

}  // namespace megacpp::runtime::cuda
