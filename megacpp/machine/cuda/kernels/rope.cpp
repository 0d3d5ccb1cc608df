// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/rope_params.h"
#include "megacpp/machine/cuda/kernels/row_launch.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_rope(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& x = view.operands[0];
  const int64_t dim = x.dim(3), half = view.operands[1].dim(1), wide = 16 / ir::dtype_bytes(x.dtype);
  const bool in_vectors = half % wide == 0 && dim % wide == 0;
  const int64_t threads = dim == 0 ? 0 : x.elements() / dim * ((dim - half) / (in_vectors ? wide : 1));
  const std::string name = "rope_" + std::string(ir::dtype_name(x.dtype)) + "_" +
                           std::string(ir::dtype_name(view.operands[1].dtype)) + (in_vectors ? "_vector" : "_single");
  const RopeParams params{.x = 0,
                          .cos = 0,
                          .sin = 0,
                          .y = 0,
                          .threads = static_cast<uint64_t>(threads),
                          .sequence = static_cast<uint32_t>(x.dim(1)),
                          .heads = static_cast<uint32_t>(x.dim(2)),
                          .dim = static_cast<uint32_t>(dim),
                          .half = static_cast<uint32_t>(half),
                          .sign = view.attrs.flag("inverse") ? -1.0F : 1.0F};
  return {
      .run = [params, function = toolbox.function("rope", name), shape = flat_launch(threads)](const Launch& launched) {
        RopeParams bound = params;
        bound.x = launched.operands[0];
        bound.cos = launched.operands[1];
        bound.sin = launched.operands[2];
        bound.y = launched.results[0];
        launch(function, shape, launched.stream, bound);
      }};
}

}  // namespace

Kernel rope_kernel() { return {.op = "rope", .workspace_bytes = {}, .supports = {}, .prepare = prepare_rope}; }

}  // namespace megacpp::runtime::cuda
