// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::ir {

int64_t num_elements(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) text += ',';
    text += std::to_string(shape[d]);
  }
  return text + "]";
}

std::string to_string(const TensorType& type) { return std::string(dtype_name(type.dtype)) + to_string(type.shape); }

}  // namespace megacpp::ir
