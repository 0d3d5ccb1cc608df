// SPDX-License-Identifier: Apache-2.0
// SwiGLU inside the products around it (swiglu_product.cuh), of experts and of dense feed-forwards, on tensor cores
// alone. Forward a tile takes 128 columns of gate and of up; anything else is taken apart.
#include <optional>

#include "megacpp/base/error.h"
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/ragged_launch.h"
#include "megacpp/runtime/cuda/kernels/swiglu_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kWholeColumns = kTileColumns / 2;

// [rows, k] times matrices to [rows, n]. Counts of experts are operand `counts`; those of dense products have none.
struct SwigluSizes {
  int64_t rows, k, n;
  std::optional<RowLists> lists = {};
  size_t counts = 0;

  int64_t row_bytes() const { return n * 2; }
  int64_t matrices() const { return lists ? lists->layout.experts : 1; }
  int64_t workspace_bytes() const { return lists ? lists->bytes() : 0; }
};

SwigluSizes dense_sizes(const ops::NodeView& view) {
  const ir::TensorType& x = view.operands[0];
  return {.rows = x.elements() / x.dim(-1), .k = x.dim(-1), .n = view.results[0].dim(-1)};
}

SwigluSizes expert_sizes(const ops::NodeView& view, size_t counts) {
  SwigluSizes sizes = dense_sizes(view);
  sizes.lists = RowLists{row_layout(view.operands[0], view.operands[counts]), kDotUnit};
  sizes.counts = counts;
  return sizes;
}

base::Decision fits_tiles(const ops::NodeView& view) {
  if (view.operands[0].dtype != ir::DType::bf16) return base::Decision::no("it is not in bf16");
  if (view.operands[0].dim(-1) % 8 != 0) return base::Decision::no("rows are no multiple of 16 bytes");
  if (view.results[0].dim(-1) % kWholeColumns != 0)
    return base::Decision::no("the inner width is no multiple of " + std::to_string(kWholeColumns));
  if (view.results[0].elements() / 8 > INT32_MAX) return base::Decision::no("results have more than 2^34 elements");
  return base::Decision::yes();
}

// What params of both directions have in common.
template <typename Params>
Params common_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  Params params = {};
  params.a = tile_map(driver, {launch.operands[0], s.k, s.rows, kTileRows});
  params.a_segment = tile_map(driver, {launch.operands[0], s.k, s.rows, kSegmentRows});
  if (s.lists) params.lists = s.lists->at(launch.workspace);
  params.experts = static_cast<int32_t>(s.matrices());
  params.rows = static_cast<int32_t>(s.rows);
  params.k = static_cast<int32_t>(s.k);
  params.n = static_cast<int32_t>(s.n);
  return params;
}

void* result_at(const Launch& launch, size_t r) {
  return r < launch.results.size() ? rows_pointer<void>(launch.results[r]) : nullptr;
}

// Operands: x, w_gate, w_up; results: h, perhaps gate and up.
SwigluParams swiglu_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  auto params = common_params<SwigluParams>(s, driver, launch);
  for (size_t i = 0; i < 2; ++i)
    params.w[i] = tile_map(driver, {launch.operands[1 + i], s.n, s.k, kTileDepth, s.matrices()});
  params.h = result_at(launch, 0);
  params.gate = result_at(launch, 1);
  params.up = result_at(launch, 2);
  return params;
}

// Operands: dy, w_down, and last gate and up; results: dgate, dup, perhaps h.
SwigluGradParams swiglu_grad_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  auto params = common_params<SwigluGradParams>(s, driver, launch);
  params.w = tile_map(driver, {launch.operands[1], s.k, s.n, kTileColumns / kClusterBlocks, s.matrices()});
  params.gate = rows_pointer<const void>(launch.operands[launch.operands.size() - 2]);
  params.up = rows_pointer<const void>(launch.operands.back());
  params.dgate = result_at(launch, 0);
  params.dup = result_at(launch, 1);
  params.h = result_at(launch, 2);
  return params;
}

template <typename Params>
using MakeParams = Params (*)(const SwigluSizes&, const Driver&, const Launch&);

template <typename Params>
Prepared prepare_swiglu(const SwigluSizes& s, const Function& function, MakeParams<Params> make, Toolbox& toolbox) {
  MEGACPP_CHECK(s.rows < INT32_MAX - kTileRows * kClusterBlocks) << s.rows << " rows";
  std::optional<ListRows> rows;
  if (s.lists) rows.emplace(*s.lists, toolbox);
  return {[s, function, make, rows, driver = &toolbox.driver(), shape = product_shape(toolbox)](const Launch& launch) {
    if (rows) rows->run(launch, launch.operands[s.counts], {.results = launch.results, .row_bytes = s.row_bytes()});
    cuda::launch(function, shape, launch.stream, make(s, *driver, launch));
  }};
}

using SizesOf = SwigluSizes (*)(const ops::NodeView&);

// The op has the name of its file of device code, and of the kernel in it.
Kernel forward_kernel(std::string_view op, SizesOf sizes_of) {
  return {.op = op,
          .workspace_bytes = [sizes_of](const ops::NodeView& view) { return sizes_of(view).workspace_bytes(); },
          .supports = fits_tiles,
          .prepare =
              [op, sizes_of](const ops::NodeView& view, Toolbox& toolbox) {
                return prepare_swiglu<SwigluParams>(sizes_of(view), toolbox.function(op, op), swiglu_params, toolbox);
              }};
}

Kernel grad_kernel(std::string_view op, std::string_view cubin, SizesOf sizes_of) {
  return {.op = op,
          .workspace_bytes = [sizes_of](const ops::NodeView& view) { return sizes_of(view).workspace_bytes(); },
          .supports = fits_tiles,
          .prepare =
              [op, cubin, sizes_of](const ops::NodeView& view, Toolbox& toolbox) {
                const std::string name = std::string(op) + (view.results.size() == 3 ? "_h" : "");
                return prepare_swiglu<SwigluGradParams>(sizes_of(view), toolbox.function(cubin, name),
                                                        swiglu_grad_params, toolbox);
              }};
}

}  // namespace

Kernel dense_swiglu_kernel() { return forward_kernel("dense_swiglu", dense_sizes); }
Kernel dense_swiglu_grad_kernel() { return grad_kernel("dense_swiglu_grad", "dense_swiglu", dense_sizes); }

Kernel ragged_swiglu_kernel() {
  return forward_kernel("ragged_swiglu", [](const ops::NodeView& view) { return expert_sizes(view, 3); });
}
Kernel ragged_swiglu_grad_kernel() {
  return grad_kernel("ragged_swiglu_grad", "ragged_swiglu",
                     [](const ops::NodeView& view) { return expert_sizes(view, 2); });
}

}  // namespace megacpp::runtime::cuda
