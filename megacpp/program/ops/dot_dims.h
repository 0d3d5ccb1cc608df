// SPDX-License-Identifier: Apache-2.0
// The dimensions of a dot, side by side: batch, contracted and free, as read from its attributes.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/core/ir/attrs.h"
#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::ops {

struct DotSide {
  std::vector<int64_t> batch;
  std::vector<int64_t> contract;
  std::vector<int64_t> free;  // ascending
};

struct DotSides {
  DotSide lhs;
  DotSide rhs;
};

DotSides dot_sides(const ir::Attrs& attrs, const ir::TensorType& lhs, const ir::TensorType& rhs);

}  // namespace megacpp::ops
