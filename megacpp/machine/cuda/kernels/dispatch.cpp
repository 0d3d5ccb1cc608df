// SPDX-License-Identifier: Apache-2.0
// dispatch writes rows from their tokens' side and marks them; the rows that nobody took are cleared after that.
#include <string>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/dispatch_params.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

DispatchSizes dispatch_sizes(const ir::TensorType& slots, const ir::TensorType& rows) {
  const int64_t width = rows.dim(-1);
  return {.tokens = slots.dim(0) * slots.dim(1) * slots.dim(2),
          .tokens_in_chunk = std::max<int64_t>(1, slots.dim(2)),
          .rows_in_chunk = rows.elements() / std::max<int64_t>(1, rows.dim(0) * rows.dim(1) * width),
          .choices = slots.dim(3),
          .width = width};
}

// 16 bytes in one access where rows are whole numbers of them.
std::string dispatch_variant(std::string_view op, const Floats& rows, int64_t width) {
  const int64_t widest = rows.is_bf16 ? 8 : 4;
  return std::string(op) + (rows.is_bf16 ? "_bf16_" : "_f32_") + std::to_string(width % widest == 0 ? widest : 1);
}

LaunchShape dispatch_shape(int64_t items) {
  return {.grid = {static_cast<uint32_t>(ceil_div(items, kDispatchWarps)), 1, 1}, .block = {kDispatchWarps * 32, 1, 1}};
}

int64_t row_count(const ir::TensorType& rows) { return rows.elements() / std::max<int64_t>(1, rows.dim(-1)); }

Prepared prepare_dispatch(const ops::NodeView& view, Toolbox& toolbox) {
  const DispatchSizes sizes = dispatch_sizes(view.operands[1], view.results[0]);
  const Floats x = floats_at(view.operands, 0), rows = floats_at(view.results, 0);
  const bool is_weighted = view.operands.size() == 3;
  const Floats weights = is_weighted ? floats_at(view.operands, 2) : Floats{};
  const int64_t count = row_count(view.results[0]);
  const Function move = toolbox.function("dispatch", dispatch_variant("dispatch", rows, sizes.width));
  const Function clear = toolbox.function("dispatch", dispatch_variant("clear_rows", rows, sizes.width));
  const Driver* driver = &toolbox.driver();
  return {[=](const Launch& l) {
    if (count == 0) return;
    driver->memset_bytes_async(l.workspace, 0, static_cast<size_t>(count), l.stream);
    launch(move, dispatch_shape(sizes.tokens), l.stream,
           DispatchParams{.tokens = x.of(l.operands),
                          .rows = rows.of(l.results),
                          .slots = l.operands[1],
                          .weights = is_weighted ? weights.of(l.operands) : FloatArray{0, 0},
                          .is_used = l.workspace,
                          .addend = {0, 0},
                          .sizes = sizes});
    launch(clear, dispatch_shape(count), l.stream,
           ClearRowsParams{.rows = rows.of(l.results), .is_used = l.workspace, .count = count, .width = sizes.width});
  }};
}

Prepared prepare_combine(const ops::NodeView& view, Toolbox& toolbox) {
  const DispatchSizes sizes = dispatch_sizes(view.operands[1], view.operands[0]);
  const Floats rows = floats_at(view.operands, 0), sums = floats_at(view.results, 0);
  const bool is_weighted = view.operands.size() >= 3, has_addend = view.operands.size() == 4;
  const Floats weights = is_weighted ? floats_at(view.operands, 2) : Floats{};
  const Floats addend = has_addend ? floats_at(view.operands, 3) : Floats{};
  const Function function = toolbox.function("dispatch", dispatch_variant("combine", rows, sizes.width));
  return {[=](const Launch& l) {
    launch(function, dispatch_shape(sizes.tokens), l.stream,
           DispatchParams{.tokens = sums.of(l.results),
                          .rows = rows.of(l.operands),
                          .slots = l.operands[1],
                          .weights = is_weighted ? weights.of(l.operands) : FloatArray{0, 0},
                          .is_used = 0,
                          .addend = has_addend ? addend.of(l.operands) : FloatArray{0, 0},
                          .sizes = sizes});
  }};
}

Prepared prepare_slot_dots(const ops::NodeView& view, Toolbox& toolbox) {
  const DispatchSizes sizes = dispatch_sizes(view.operands[2], view.operands[1]);
  const Floats x = floats_at(view.operands, 0), rows = floats_at(view.operands, 1), dots = floats_at(view.results, 0);
  const Function function = toolbox.function("dispatch", dispatch_variant("slot_dots", rows, sizes.width));
  return {[=](const Launch& l) {
    launch(function, dispatch_shape(sizes.tokens), l.stream,
           SlotDotsParams{.tokens = x.of(l.operands),
                          .rows = rows.of(l.operands),
                          .slots = l.operands[2],
                          .dots = dots.of(l.results),
                          .sizes = sizes});
  }};
}

}  // namespace

Kernel dispatch_kernel() {
  return {.op = "dispatch",
          .workspace_bytes = [](const ops::NodeView& view) { return row_count(view.results[0]); },
          .least_seconds = at_least(7e-6),
          .prepare = prepare_dispatch};
}
Kernel combine_kernel() { return {.op = "combine", .prepare = prepare_combine}; }
Kernel slot_dots_kernel() { return {.op = "slot_dots", .prepare = prepare_slot_dots}; }

}  // namespace megacpp::runtime::cuda
