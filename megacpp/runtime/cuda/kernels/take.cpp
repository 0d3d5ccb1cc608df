// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/row_launch.h"
#include "megacpp/runtime/cuda/kernels/take_params.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_take(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& table = view.operands[0];
  const int64_t rows = view.operands[1].elements(), row_bytes = table.dim(1) * ir::dtype_bytes(table.dtype);
  const int64_t unit = access_bytes(std::array{row_bytes}), width = row_bytes / unit;
  const Function function = toolbox.function("take", "take_" + std::to_string(unit));
  return {.run = [=, shape = row_launch(rows, width)](const Launch& launched) {
    launch(function, shape, launched.stream,
           TakeParams{.table = launched.operands[0],
                      .ids = launched.operands[1],
                      .to = launched.results[0],
                      .rows = rows,
                      .width = width});
  }};
}

// Workspace: i32 order [count], then from the next aligned byte i32 starts [rows + 1].
int64_t order_bytes(const ops::NodeView& view) {
  const int64_t bytes = view.operands[0].elements() * 4;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t scatter_workspace_bytes(const ops::NodeView& view) {
  return order_bytes(view) + (view.results[0].dim(0) + 1) * 4;
}

Prepared prepare_scatter_add(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& table = view.results[0];
  const int64_t count = view.operands[0].elements(), rows = table.dim(0), width = table.dim(1);
  const int64_t wide = 16 / ir::dtype_bytes(table.dtype), vector = width % wide == 0 ? wide : 1;
  const Function order = toolbox.function("take", "scatter_order");
  const Function sum = toolbox.function(
      "take", "scatter_sum_" + std::string(ir::dtype_name(table.dtype)) + (vector > 1 ? "_vector" : "_single"));
  constexpr int64_t kRowsOfBlock = kScatterRowsPerWarp * kScatterWarps;
  const LaunchShape order_shape{.grid = {static_cast<uint32_t>((rows + kRowsOfBlock - 1) / kRowsOfBlock), 1, 1},
                                .block = {32 * kScatterWarps, 1, 1}};
  const LaunchShape sum_shape = row_launch(rows, width / vector);
  const uint64_t starts_at = static_cast<uint64_t>(order_bytes(view));
  return {.run = [=](const Launch& launched) {
    const Address starts = launched.workspace + starts_at;
    launch(order, order_shape, launched.stream,
           ScatterOrderParams{.ids = launched.operands[0],
                              .order = launched.workspace,
                              .starts = starts,
                              .count = count,
                              .rows = static_cast<int32_t>(rows)});
    launch(sum, sum_shape, launched.stream,
           ScatterSumParams{.values = launched.operands[1],
                            .order = launched.workspace,
                            .starts = starts,
                            .table = launched.results[0],
                            .rows = rows,
                            .vectors = width / vector});
  }};
}

}  // namespace

Kernel take_kernel() { return {.op = "take", .workspace_bytes = {}, .supports = {}, .prepare = prepare_take}; }
Kernel scatter_add_kernel() {
  return {
      .op = "scatter_add", .workspace_bytes = scatter_workspace_bytes, .supports = {}, .prepare = prepare_scatter_add};
}

}  // namespace megacpp::runtime::cuda
