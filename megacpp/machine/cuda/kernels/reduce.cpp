// SPDX-License-Identifier: Apache-2.0
// Reductions over any dimensions, and running sums. Trailing sums are usually fused with their producer and never come
// here; what comes is mostly the sum over leading dimensions: gradients of biases and broadcast operands.
#include "megacpp/machine/cuda/kernels/reduce_plan.h"

#include <algorithm>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/row_launch.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_reduce(const ops::NodeView& view, Toolbox& toolbox) {
  const ReducePlan plan = plan_reduce(view);
  const std::string variant = view.attrs.text("kind") + "_" + std::string(ir::dtype_name(view.operands[0].dtype));
  const std::string spread = plan.vector > 1 ? "_vector" : "_single";
  const Function first =
      toolbox.function("reduce", (plan.folds_rows ? "reduce_rows_" : "reduce_columns_") + variant + spread);
  const Function second = toolbox.function("reduce", "reduce_combine_" + variant);
  const LaunchShape first_shape{
      .grid = {static_cast<uint32_t>(plan.blocks), static_cast<uint32_t>(plan.params.parts), 1},
      .block = {kReduceThreads, 1, 1}};
  const int64_t columns = (static_cast<int64_t>(plan.params.kept) + kReduceColumns - 1) / kReduceColumns;
  const LaunchShape second_shape{.grid = {static_cast<uint32_t>(columns), 1, 1},
                                 .block = {kReduceColumns, kReduceRows, 1}};
  return {.run = [=](const Launch& launched) {
    ReduceParams params = plan.params;
    params.x = launched.operands[0];
    params.y = launched.results[0];
    params.partials = launched.workspace;
    launch(first, first_shape, launched.stream, params);
    if (params.parts > 1) launch(second, second_shape, launched.stream, params);
  }};
}

Prepared prepare_cumsum(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& type = view.operands[0];
  const int64_t dim = view.attrs.integer("dim"), size = type.dim(dim);
  const int64_t inner = ir::strides_of(type.shape)[static_cast<size_t>(dim)];
  const int64_t lines = type.elements() / std::max<int64_t>(1, size);
  const bool of_rows = inner == 1;  // a warp for each line
  const CumsumParams params{.x = 0,
                            .y = 0,
                            .lines = static_cast<uint64_t>(lines),
                            .inner = static_cast<uint32_t>(inner),
                            .reverse = view.attrs.flag("reverse") ? 1U : 0U,
                            .size = size};
  const std::string name = (of_rows ? "cumsum_rows_" : "cumsum_lines_") + std::string(ir::dtype_name(type.dtype));
  return {.run = [params, function = toolbox.function("reduce", name),
                  shape = flat_launch(of_rows ? lines * 32 : lines)](const Launch& launched) {
    CumsumParams bound = params;
    bound.x = launched.operands[0];
    bound.y = launched.results[0];
    launch(function, shape, launched.stream, bound);
  }};
}

}  // namespace

Kernel reduce_kernel() {
  return {.op = "reduce",
          .workspace_bytes = [](const ops::NodeView& view) { return plan_reduce(view).workspace_bytes(); },
          .least_seconds = at_least(3.3e-6),
          .supports = {},
          .prepare = prepare_reduce};
}
Kernel cumsum_kernel() { return {.op = "cumsum", .workspace_bytes = {}, .supports = {}, .prepare = prepare_cumsum}; }

}  // namespace megacpp::runtime::cuda
