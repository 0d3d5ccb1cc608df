// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/rms_norm_params.h"
#include "megacpp/machine/cuda/kernels/rms_norm_plan.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

// "bf16_f32_two": dtypes of x and w, and the spread.
std::string norm_variant(const ops::NodeView& view, const RmsNormPlan& plan) {
  return std::string(ir::dtype_name(view.operands[0].dtype)) + "_" +
         std::string(ir::dtype_name(view.operands[1].dtype)) + "_" + std::string(plan.spread);
}

LaunchShape norm_launch(int64_t blocks, const RmsNormPlan& plan) {
  return {.grid = {static_cast<uint32_t>(blocks), static_cast<uint32_t>(plan.groups), 1},
          .block = {static_cast<uint32_t>(plan.threads), 1, 1}};
}

Prepared prepare_rms_norm(const ops::NodeView& view, Toolbox& toolbox) {
  const RmsNormPlan plan = plan_rms_norm(view);
  const Function function = toolbox.function("rms_norm", "rms_norm_" + norm_variant(view, plan));
  const float eps = static_cast<float>(view.attrs.real("eps"));
  const float offset = static_cast<float>(view.attrs.real("offset", 0.0));
  return {.run = [=, shape = norm_launch(plan.row_blocks(), plan)](const Launch& launched) {
    launch(function, shape, launched.stream,
           RmsNormParams{.x = launched.operands[0],
                         .w = launched.operands[1],
                         .y = launched.results[0],
                         .rstd = launched.results[1],
                         .rows = plan.rows,
                         .width = plan.width,
                         .group = static_cast<int32_t>(plan.group),
                         .lanes = static_cast<int32_t>(plan.lanes),
                         .eps = eps,
                         .offset = offset});
  }};
}

Prepared prepare_rms_norm_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const RmsNormPlan plan = plan_rms_norm(view);
  const bool adds = view.operands.size() == 5;
  const Function rows = toolbox.function("rms_norm", "rms_norm_grad_" + norm_variant(view, plan));
  const std::string_view weight = ir::dtype_name(view.operands[1].dtype);
  const Function weights = toolbox.function("rms_norm", "rms_norm_weight_" + std::string(weight));
  const float offset = static_cast<float>(view.attrs.real("offset", 0.0));
  LaunchShape row_shape = norm_launch(plan.grad_blocks(), plan);
  row_shape.shared_bytes = static_cast<uint32_t>(plan.grad_shared_bytes());
  const uint32_t columns = static_cast<uint32_t>((plan.width + kRmsNormWeightColumns - 1) / kRmsNormWeightColumns);
  const LaunchShape weight_shape{.grid = {columns, 1, 1}, .block = {kRmsNormWeightColumns, kRmsNormWeightRows, 1}};
  return {.run = [=](const Launch& launched) {
    launch(rows, row_shape, launched.stream,
           RmsNormGradParams{.x = launched.operands[0],
                             .w = launched.operands[1],
                             .rstd = launched.operands[2],
                             .dy = launched.operands[3],
                             .dx = launched.results[0],
                             .addend = adds ? launched.operands[4] : 0,
                             .partials = launched.workspace,
                             .rows = plan.rows,
                             .width = plan.width,
                             .group = static_cast<int32_t>(plan.group),
                             .lanes = static_cast<int32_t>(plan.lanes),
                             .offset = offset});
    launch(weights, weight_shape, launched.stream,
           RmsNormWeightParams{.partials = launched.workspace,
                               .dw = launched.results[1],
                               .width = plan.width,
                               .parts = static_cast<int32_t>(plan.parts())});
  }};
}

}  // namespace

Kernel rms_norm_kernel() {
  return {.op = "rms_norm", .workspace_bytes = {}, .supports = supports_rms_norm, .prepare = prepare_rms_norm};
}

Kernel rms_norm_grad_kernel() {
  return {.op = "rms_norm_grad",
          .workspace_bytes = [](const ops::NodeView& view) { return plan_rms_norm(view).grad_workspace_bytes(); },
          .least_seconds = at_least(6e-6),
          .supports = supports_rms_norm_grad,
          .prepare = prepare_rms_norm_grad};
}

}  // namespace megacpp::runtime::cuda
