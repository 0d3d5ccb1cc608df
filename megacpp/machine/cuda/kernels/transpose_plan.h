// SPDX-License-Identifier: Apache-2.0
// A transpose with as few dimensions as it has: those of size one are left out, and neighbours that stay neighbours are
// one.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::runtime::cuda {

/// A dimension of the result.
struct TransposedDim {
  int64_t size;
  int64_t from_stride;  // elements, in the operand
  int64_t to_stride;    // in the result
};

std::vector<TransposedDim> transposed_dims(const ir::Shape& operand, const std::vector<int64_t>& permutation);

}  // namespace megacpp::runtime::cuda
