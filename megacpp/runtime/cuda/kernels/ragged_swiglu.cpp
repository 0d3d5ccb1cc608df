// SPDX-License-Identifier: Apache-2.0
// SwiGLU of experts inside the products around it (ragged_swiglu.cu), on tensor cores alone. Forward a tile takes 128
// columns of gate and of up; anything else is taken apart.
#include "megacpp/base/error.h"
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/ragged_launch.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kWholeColumns = kTileColumns / 2;

// x[rows, k] times matrices to [rows, n].
struct SwigluSizes {
  RowLists lists;
  int64_t rows, k, n;

  int64_t row_bytes() const { return n * 2; }
};

SwigluSizes swiglu_sizes(const ir::TensorType& x, const ir::TensorType& counts, const ir::TensorType& result) {
  const RowLayout layout = row_layout(x, counts);
  return {.lists = {layout, kDotUnit}, .rows = layout.chunks * layout.chunk_rows, .k = x.dim(-1), .n = result.dim(-1)};
}

SwigluSizes swiglu_node(const ops::NodeView& view) {
  return swiglu_sizes(view.operands[0], view.operands[3], view.results[0]);
}
SwigluSizes swiglu_grad_node(const ops::NodeView& view) {
  return swiglu_sizes(view.operands[0], view.operands[2], view.results[0]);
}

base::Decision fits_tiles(const ops::NodeView& view) {
  if (view.operands[0].dtype != ir::DType::bf16) return base::Decision::no("it is not in bf16");
  if (view.operands[0].dim(-1) % 8 != 0) return base::Decision::no("rows are no multiple of 16 bytes");
  if (view.results[0].dim(-1) % kWholeColumns != 0)
    return base::Decision::no("the inner width is no multiple of " + std::to_string(kWholeColumns));
  return base::Decision::yes();
}

// What params of both directions have in common.
template <typename Params>
Params common_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  Params params = {};
  params.a = tile_map(driver, {launch.operands[0], s.k, s.rows, kTileRows});
  params.a_segment = tile_map(driver, {launch.operands[0], s.k, s.rows, kSegmentRows});
  params.lists = s.lists.at(launch.workspace);
  params.experts = static_cast<int32_t>(s.lists.layout.experts);
  params.k = static_cast<int32_t>(s.k);
  params.n = static_cast<int32_t>(s.n);
  return params;
}

void* result_at(const Launch& launch, size_t r) {
  return r < launch.results.size() ? rows_pointer<void>(launch.results[r]) : nullptr;
}

// Operands: x, w_gate, w_up, counts; results: h, perhaps gate and up.
RaggedSwigluParams swiglu_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  auto params = common_params<RaggedSwigluParams>(s, driver, launch);
  for (size_t i = 0; i < 2; ++i)
    params.w[i] = tile_map(driver, {launch.operands[1 + i], s.n, s.k, kTileDepth, s.lists.layout.experts});
  params.h = result_at(launch, 0);
  params.gate = result_at(launch, 1);
  params.up = result_at(launch, 2);
  return params;
}

Prepared prepare_swiglu(const ops::NodeView& view, Toolbox& toolbox) {
  const SwigluSizes s = swiglu_node(view);
  return {[s, function = toolbox.function("ragged_swiglu", "ragged_swiglu"), rows = ListRows(s.lists, toolbox),
           driver = &toolbox.driver(), shape = product_shape(toolbox)](const Launch& launch) {
    rows.run(launch, launch.operands[3], {.results = launch.results, .row_bytes = s.row_bytes()});
    cuda::launch(function, shape, launch.stream, swiglu_params(s, *driver, launch));
  }};
}

// Operands: dy, w_down, counts, gate, up; results: dgate, dup, perhaps h.
RaggedSwigluGradParams swiglu_grad_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  auto params = common_params<RaggedSwigluGradParams>(s, driver, launch);
  params.w = tile_map(driver, {launch.operands[1], s.k, s.n, kTileColumns / kClusterBlocks, s.lists.layout.experts});
  params.gate = rows_pointer<const void>(launch.operands[3]);
  params.up = rows_pointer<const void>(launch.operands[4]);
  params.dgate = result_at(launch, 0);
  params.dup = result_at(launch, 1);
  params.h = result_at(launch, 2);
  return params;
}

Prepared prepare_swiglu_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const SwigluSizes s = swiglu_grad_node(view);
  const char* const name = view.results.size() == 3 ? "ragged_swiglu_grad_h" : "ragged_swiglu_grad";
  return {[s, function = toolbox.function("ragged_swiglu", name), rows = ListRows(s.lists, toolbox),
           driver = &toolbox.driver(), shape = product_shape(toolbox)](const Launch& launch) {
    rows.run(launch, launch.operands[2], {.results = launch.results, .row_bytes = s.row_bytes()});
    cuda::launch(function, shape, launch.stream, swiglu_grad_params(s, *driver, launch));
  }};
}

}  // namespace

Kernel ragged_swiglu_kernel() {
  return {.op = "ragged_swiglu",
          .workspace_bytes = [](const ops::NodeView& view) { return swiglu_node(view).lists.bytes(); },
          .supports = fits_tiles,
          .prepare = prepare_swiglu};
}

Kernel ragged_swiglu_grad_kernel() {
  return {.op = "ragged_swiglu_grad",
          .workspace_bytes = [](const ops::NodeView& view) { return swiglu_grad_node(view).lists.bytes(); },
          .supports = fits_tiles,
          .prepare = prepare_swiglu_grad};
}

}  // namespace megacpp::runtime::cuda
