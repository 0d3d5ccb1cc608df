// SPDX-License-Identifier: Apache-2.0
// SwiGLU of experts inside the products around it, on tensor cores alone. Forward a tile takes 128 columns of gate and
// of up; anything else is taken apart.
#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/ragged_launch.h"
#include "megacpp/machine/cuda/kernels/ragged_swiglu_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kWholeColumns = kTileColumns / 2;

// [rows, k] times matrices to [rows, n]. Operand `counts` says how many rows each expert has.
struct SwigluSizes {
  int64_t rows, k, n;
  RowLists lists;
  size_t counts;

  int64_t row_bytes() const { return n * 2; }
  int64_t experts() const { return lists.layout.experts; }
};

SwigluSizes sizes_of(const ops::NodeView& view, size_t counts) {
  const ir::TensorType& x = view.operands[0];
  return {.rows = x.elements() / x.dim(-1),
          .k = x.dim(-1),
          .n = view.results[0].dim(-1),
          .lists = {row_layout(x, view.operands[counts]), kDotUnit},
          .counts = counts};
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
  params.a = loaded_rows(driver, {launch.operands[0], s.k, s.rows});
  params.lists = s.lists.at(launch.workspace);
  params.experts = static_cast<int32_t>(s.experts());
  params.k = static_cast<int32_t>(s.k);
  params.n = static_cast<int32_t>(s.n);
  return params;
}

// None where the node has no such result.
StoredRows result_at(const SwigluSizes& s, const Driver& driver, const Launch& launch, size_t r) {
  if (r >= launch.results.size()) return {};
  return stored_rows(driver, {launch.results[r], s.n, s.rows});
}

// Operands: x, w_gate, w_up; results: h, perhaps gate and up.
SwigluParams swiglu_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  auto params = common_params<SwigluParams>(s, driver, launch);
  for (size_t i = 0; i < 2; ++i)
    params.w[i] = tile_map(driver, {launch.operands[1 + i], s.n, s.k, kTileDepth, s.experts()});
  params.h = result_at(s, driver, launch, 0);
  params.gate = result_at(s, driver, launch, 1);
  params.up = result_at(s, driver, launch, 2);
  return params;
}

// Operands: dy, w_down, and last gate and up; results: dgate, dup, perhaps h.
SwigluGradParams swiglu_grad_params(const SwigluSizes& s, const Driver& driver, const Launch& launch) {
  auto params = common_params<SwigluGradParams>(s, driver, launch);
  params.w = tile_map(driver, {launch.operands[1], s.k, s.n, kTileColumns / kClusterBlocks, s.experts()});
  params.gate = loaded_rows(driver, {launch.operands[launch.operands.size() - 2], s.n, s.rows});
  params.up = loaded_rows(driver, {launch.operands.back(), s.n, s.rows});
  params.dgate = result_at(s, driver, launch, 0);
  params.dup = result_at(s, driver, launch, 1);
  params.h = result_at(s, driver, launch, 2);
  return params;
}

template <typename Params>
using MakeParams = Params (*)(const SwigluSizes&, const Driver&, const Launch&);

template <typename Params>
Prepared prepare_swiglu(const SwigluSizes& s, const Function& function, MakeParams<Params> make, Toolbox& toolbox) {
  MEGACPP_CHECK(s.rows < INT32_MAX - kTileRows * kClusterBlocks) << s.rows << " rows";
  return {[s, function, make, rows = ListRows(s.lists, toolbox), driver = &toolbox.driver(),
           shape = product_shape(toolbox)](const Launch& launch) {
    rows.run(launch, launch.operands[s.counts], {.results = launch.results, .row_bytes = s.row_bytes()});
    cuda::launch(function, shape, launch.stream, make(s, *driver, launch));
  }};
}

constexpr size_t kForwardCounts = 3, kGradCounts = 2;  // operands

template <size_t kCounts>
int64_t workspace_bytes(const ops::NodeView& view) {
  return sizes_of(view, kCounts).lists.bytes();
}

}  // namespace

Kernel ragged_swiglu_kernel() {
  return {.op = "ragged_swiglu",
          .workspace_bytes = workspace_bytes<kForwardCounts>,
          .least_seconds = at_least(20e-6),
          .supports = fits_tiles,
          .prepare = [](const ops::NodeView& view, Toolbox& toolbox) {
            return prepare_swiglu<SwigluParams>(sizes_of(view, kForwardCounts),
                                                toolbox.function("ragged_swiglu", "ragged_swiglu"), swiglu_params,
                                                toolbox);
          }};
}

Kernel ragged_swiglu_grad_kernel() {
  return {.op = "ragged_swiglu_grad",
          .workspace_bytes = workspace_bytes<kGradCounts>,
          .least_seconds = at_least(20e-6),
          .supports = fits_tiles,
          .prepare = [](const ops::NodeView& view, Toolbox& toolbox) {
            const char* const name = view.results.size() == 3 ? "ragged_swiglu_grad_h" : "ragged_swiglu_grad";
            return prepare_swiglu<SwigluGradParams>(
                sizes_of(view, kGradCounts), toolbox.function("ragged_swiglu", name), swiglu_grad_params, toolbox);
          }};
}

}  // namespace megacpp::runtime::cuda
