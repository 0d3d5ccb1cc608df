// SPDX-License-Identifier: Apache-2.0
// How rms_norm and its gradient are spread over blocks: a function of the node alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "megacpp/core/base/decision.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

struct RmsNormPlan {
  int64_t rows, width, group, groups;  // width = groups * group
  int64_t vector;                      // elements of an access
  int64_t held;                        // vectors that a lane keeps in registers
  int64_t lanes;                       // threads of a group; a power of two
  int64_t threads;                     // of a block
  std::string_view spread;             // how the kernels call vector and held

  int64_t rows_of_block() const { return threads / lanes; }
  int64_t row_blocks() const { return (rows + rows_of_block() - 1) / rows_of_block(); }
  /// Of the gradient, whose blocks walk through many rows each.
  int64_t grad_blocks() const;
  /// Partial sums of dw: f32 [parts, width].
  int64_t parts() const { return grad_blocks(); }
  /// Dynamic, of a block of the gradient: rows on their way.
  int64_t grad_shared_bytes() const;
  int64_t grad_workspace_bytes() const { return parts() * width * 4; }
};

RmsNormPlan plan_rms_norm(const ops::NodeView& view);

base::Decision supports_rms_norm(const ops::NodeView& view);
/// The gradient keeps a group in registers whole.
base::Decision supports_rms_norm_grad(const ops::NodeView& view);

}  // namespace megacpp::runtime::cuda
