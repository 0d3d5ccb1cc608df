// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/kernels/top_k_params.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kTopKThreads = 256, kTopKLanes = 32;

LaunchShape top_k_shape(int64_t threads) {
  return {.grid = {static_cast<uint32_t>(ceil_div(threads, kTopKThreads)), 1, 1}, .block = {kTopKThreads, 1, 1}};
}

// As many as the row has elements, up to a warp.
int64_t lanes_of_row(int64_t width) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(width, kTopKLanes))));
}

Prepared prepare_top_k(const ops::NodeView& view, Toolbox& toolbox) {
  const Floats x = floats_at(view.operands, 0), values = floats_at(view.results, 0);
  const int64_t width = view.operands[0].dim(-1), rows = view.operands[0].elements() / width;
  const int64_t k = view.attrs.integer("k"), lanes = lanes_of_row(width);
  const Function function = toolbox.function("top_k", "top_k");
  return {[=](const Launch& l) {
    launch(function, top_k_shape(rows * lanes), l.stream,
           TopKParams{.x = x.of(l.operands),
                      .values = values.of(l.results),
                      .indices = l.results[1],
                      .rows = rows,
                      .width = width,
                      .k = k,
                      .lanes = lanes});
  }};
}

Prepared prepare_top_k_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const Floats dvalues = floats_at(view.operands, 1), dx = floats_at(view.results, 0);
  const int64_t k = view.operands[0].dim(-1), width = view.results[0].dim(-1);
  const int64_t rows = view.results[0].elements() / std::max<int64_t>(1, width);
  const Function function = toolbox.function("top_k", "top_k_grad");
  return {[=](const Launch& l) {
    launch(function, top_k_shape(rows * width), l.stream,
           TopKGradParams{.indices = l.operands[0],
                          .dvalues = dvalues.of(l.operands),
                          .dx = dx.of(l.results),
                          .rows = rows,
                          .width = width,
                          .k = k});
  }};
}

}  // namespace

Kernel top_k_kernel() { return {.op = "top_k", .prepare = prepare_top_k}; }
Kernel top_k_grad_kernel() { return {.op = "top_k_grad", .prepare = prepare_top_k_grad}; }

}  // namespace megacpp::runtime::cuda
