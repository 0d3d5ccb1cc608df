// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/row_launch.h"
#include "megacpp/machine/cuda/kernels/take_params.h"
#include "megacpp/machine/cuda/kernels/workspace_plan.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_take(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& table = view.operands[0];
  const int64_t table_rows = table.dim(0), rows = view.operands[1].elements();
  const int64_t row_bytes = table.dim(1) * ir::dtype_bytes(table.dtype);
  const int64_t unit = access_bytes(std::array{row_bytes}), width = row_bytes / unit;
  const Function function = toolbox.function("take", "take_" + std::to_string(unit));
  return {.run = [=, shape = row_launch(rows, width)](const Launch& launched) {
    launch(function, shape, launched.stream,
           TakeParams{.table = launched.operands[0],
                      .ids = launched.operands[1],
                      .to = launched.results[0],
                      .table_rows = table_rows,
                      .rows = rows,
                      .width = width});
  }};
}

// A sum of rows by index: sizes, and where its workspace has what (bytes).
struct ScatterAdd {
  int64_t count, rows, width;  // ids; rows of the table and their elements
  int64_t passes;              // of the sort
  int64_t blocks;              // of a pass
  int64_t order, other_order;  // i32 [count]: passes write the one and the other
  int64_t sorted;              // i32 [count]
  int64_t counts;              // i32 [blocks, kScatterDigits]
  int64_t starts;              // i32 [rows + 1]
  int64_t partials;            // f32 [tiles, 2, width]
  int64_t workspace_bytes;

  int64_t tiles() const { return (count + kScatterTile - 1) / kScatterTile; }
};

ScatterAdd scatter_add_of(const ops::NodeView& view) {
  const ir::TensorType& table = view.results[0];
  ScatterAdd scatter{};
  scatter.count = view.operands[0].elements();
  scatter.rows = table.dim(0);
  scatter.width = table.dim(1);
  const int64_t bits =
      std::bit_width(static_cast<uint64_t>(std::max<int64_t>(1, scatter.rows)));  // one past the end too
  scatter.passes = (bits + kScatterDigitBits - 1) / kScatterDigitBits;
  scatter.blocks = (scatter.count + kScatterPlaces - 1) / kScatterPlaces;
  WorkspacePlan workspace;
  scatter.order = workspace.book(scatter.count * 4);
  scatter.other_order = workspace.book(scatter.count * 4);
  scatter.sorted = workspace.book(scatter.count * 4);
  scatter.counts = workspace.book(scatter.blocks * kScatterDigits * 4);
  scatter.starts = workspace.book((scatter.rows + 1) * 4);
  scatter.partials = workspace.book(scatter.tiles() * 2 * scatter.width * 4);
  scatter.workspace_bytes = workspace.bytes();
  return scatter;
}

// The kernels that sort places by id.
struct ScatterOrder {
  Function count, order, starts;

  void run(const ScatterAdd& scatter, const Launch& launched) const {
    const LaunchShape shape{.grid = {static_cast<uint32_t>(scatter.blocks), 1, 1}, .block = {kScatterThreads, 1, 1}};
    const auto at = [&](int64_t offset) { return launched.workspace + static_cast<uint64_t>(offset); };
    Address from = 0;
    for (int64_t pass = 0; pass < scatter.passes; ++pass) {
      const bool is_last = pass + 1 == scatter.passes;
      // The last pass writes `order`.
      const Address to = at((scatter.passes - pass) % 2 == 1 ? scatter.order : scatter.other_order);
      const ScatterOrderParams params{.ids = launched.operands[0],
                                      .from = from,
                                      .to = to,
                                      .counts = at(scatter.counts),
                                      .sorted = is_last ? at(scatter.sorted) : 0,
                                      .count = scatter.count,
                                      .shift = static_cast<int32_t>(pass * kScatterDigitBits)};
      launch(count, shape, launched.stream, params);
      launch(order, shape, launched.stream, params);
      from = to;
    }
    launch(
        starts, flat_launch(scatter.rows + 1), launched.stream,
        ScatterStartsParams{
            .sorted = at(scatter.sorted), .starts = at(scatter.starts), .count = scatter.count, .rows = scatter.rows});
  }
};

Prepared prepare_scatter_add(const ops::NodeView& view, Toolbox& toolbox) {
  const ScatterAdd scatter = scatter_add_of(view);
  const ir::DType dtype = view.results[0].dtype;
  const int64_t wide = 16 / ir::dtype_bytes(dtype), vector = scatter.width % wide == 0 ? wide : 1;
  const std::string variant = std::string(ir::dtype_name(dtype)) + (vector > 1 ? "_vector" : "_single");
  const ScatterOrder order{.count = toolbox.function("take", "scatter_count"),
                           .order = toolbox.function("take", "scatter_order"),
                           .starts = toolbox.function("take", "scatter_starts")};
  const Function tiles = toolbox.function("take", "scatter_tiles_" + variant);
  const Function parts = toolbox.function("take", "scatter_parts_" + variant);
  const LaunchShape parts_shape = row_launch(scatter.rows, scatter.width / vector);
  const LaunchShape tiles_shape{
      .grid = {scatter.width == 0 ? 0 : static_cast<uint32_t>(scatter.tiles()), parts_shape.grid[1], 1},
      .block = {static_cast<uint32_t>(kRowThreads), 1, 1}};
  return {.run = [=](const Launch& launched) {
    order.run(scatter, launched);
    const auto at = [&](int64_t offset) { return launched.workspace + static_cast<uint64_t>(offset); };
    const ScatterSumParams params{.values = launched.operands[1],
                                  .order = at(scatter.order),
                                  .sorted = at(scatter.sorted),
                                  .starts = at(scatter.starts),
                                  .partials = at(scatter.partials),
                                  .table = launched.results[0],
                                  .count = scatter.count,
                                  .rows = scatter.rows,
                                  .vectors = scatter.width / vector};
    launch(tiles, tiles_shape, launched.stream, params);
    launch(parts, parts_shape, launched.stream, params);
  }};
}

}  // namespace

Kernel take_kernel() { return {.op = "take", .workspace_bytes = {}, .supports = {}, .prepare = prepare_take}; }
Kernel scatter_add_kernel() {
  return {.op = "scatter_add",
          .workspace_bytes = [](const ops::NodeView& view) { return scatter_add_of(view).workspace_bytes; },
          .least_seconds = at_least(27e-6),
          .supports = {},
          .prepare = prepare_scatter_add};
}

}  // namespace megacpp::runtime::cuda
