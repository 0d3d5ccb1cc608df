// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/cross_entropy_params.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

struct LogitRows {
  int64_t width;
  std::string dtype, spread;  // "bf16", "vector"
  LaunchShape shape;

  explicit LogitRows(const ir::TensorType& logits) : width(logits.dim(-1)) {
    const int64_t wide = 16 / ir::dtype_bytes(logits.dtype);
    const bool in_vectors = width % wide == 0;
    dtype = ir::dtype_name(logits.dtype);
    spread = in_vectors ? "vector" : "single";
    const int64_t threads = std::clamp<int64_t>(in_vectors ? width / wide : width, 32, kCrossEntropyThreads);
    const int64_t rows = width == 0 ? 0 : logits.elements() / width;
    shape = {.grid = {static_cast<uint32_t>(rows), 1, 1},
             .block = {std::bit_ceil(static_cast<uint32_t>(threads)), 1, 1}};
  }
};

Prepared prepare_cross_entropy(const ops::NodeView& view, Toolbox& toolbox) {
  const LogitRows rows(view.operands[0]);
  const Function function = toolbox.function("cross_entropy", "cross_entropy_" + rows.dtype + "_" + rows.spread);
  return {.run = [=](const Launch& launched) {
    launch(function, rows.shape, launched.stream,
           CrossEntropyParams{.logits = launched.operands[0],
                              .labels = launched.operands[1],
                              .nll = launched.results[0],
                              .lse = launched.results[1],
                              .width = rows.width});
  }};
}

Prepared prepare_cross_entropy_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const LogitRows rows(view.operands[0]);
  const std::string result(ir::dtype_name(view.results[0].dtype));
  const Function function =
      toolbox.function("cross_entropy", "cross_entropy_grad_" + rows.dtype + "_" + result + "_" + rows.spread);
  return {.run = [=](const Launch& launched) {
    launch(function, rows.shape, launched.stream,
           CrossEntropyGradParams{.logits = launched.operands[0],
                                  .labels = launched.operands[1],
                                  .lse = launched.operands[2],
                                  .dnll = launched.operands[3],
                                  .dlse = launched.operands[4],
                                  .dlogits = launched.results[0],
                                  .width = rows.width});
  }};
}

}  // namespace

Kernel cross_entropy_kernel() {
  return {.op = "cross_entropy", .workspace_bytes = {}, .supports = {}, .prepare = prepare_cross_entropy};
}
Kernel cross_entropy_grad_kernel() {
  return {.op = "cross_entropy_grad", .workspace_bytes = {}, .supports = {}, .prepare = prepare_cross_entropy_grad};
}

}  // namespace megacpp::runtime::cuda
