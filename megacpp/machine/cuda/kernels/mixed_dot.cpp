// SPDX-License-Identifier: Apache-2.0
// Products of bf16 with f32 where the f32 side is narrow (narrow_dot.h); all others are taken apart.
#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/narrow_dot.h"

namespace megacpp::runtime::cuda {

Kernel mixed_dot_kernel() {
  return {.op = "mixed_dot",
          .workspace_bytes =
              [](const ops::NodeView& view) {
                const std::optional<NarrowDot> dot = narrow_dot(view);
                return dot ? dot->workspace_bytes() : 0;
              },
          .least_seconds = at_least(10e-6),
          .supports =
              [](const ops::NodeView& view) {
                return narrow_dot(view) ? base::Decision::yes() : base::Decision::no("its f32 side is not narrow");
              },
          .prepare =
              [](const ops::NodeView& view, Toolbox& toolbox) {
                const std::optional<NarrowDot> dot = narrow_dot(view);
                MEGACPP_CHECK(dot.has_value()) << "a product of bf16 with f32 that was to be taken apart";
                return prepare_narrow_dot(*dot, toolbox);
              }};
}

}  // namespace megacpp::runtime::cuda
