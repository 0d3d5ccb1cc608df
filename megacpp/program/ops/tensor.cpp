// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/tensor.h"

namespace megacpp::ops {

Tensor Tensor::zeros(ir::TensorType type) {
  const size_t count = static_cast<size_t>(type.elements());
  return Tensor{.type = std::move(type), .data = std::vector<double>(count, 0.0)};
}

int64_t flat_index(const ir::Shape& index, const ir::Shape& shape) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

}  // namespace megacpp::ops
