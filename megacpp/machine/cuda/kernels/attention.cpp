// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/attention_plan.h"
#include "megacpp/machine/cuda/kernels/attention_wgmma.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr double kPlainAttentionFlops = 15e12;  // a second, of plain arithmetic on all multiprocessors

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

// A block walks the keys of its queries.
double attention_least_seconds(const ops::NodeView& view) {
  const AttentionPlan plan = attention_plan_of(view);
  const auto keys = static_cast<double>(plan.walked_keys());
  if (plan.uses_tensor_cores()) return 5.7e-6 + keys * 10.6e-9;
  const double walk = keys * (70e-9 + plan.shape().dim * 1.6e-9);
  return 3e-6 + std::max(walk, ops::op_def("attention").cost(view).flops / kPlainAttentionFlops);
}

}  // namespace

Kernel attention_kernel() {
  return {.op = "attention",
          .workspace_bytes = [](const ops::NodeView& view) { return attention_plan_of(view).token_range_bytes(); },
          .least_seconds = attention_least_seconds,
          .supports = supports_attention,
          .prepare = prepare_attention};
}

}  // namespace megacpp::runtime::cuda
