// SPDX-License-Identifier: Apache-2.0
// Shape and element type of a tensor. Row-major, dense, static: every size is known before step 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/dtype.h"

namespace megacpp::ir {

using Shape = std::vector<int64_t>;

int64_t num_elements(const Shape& shape);
/// Elements between neighbours along each dimension, row-major.
Shape strides_of(const Shape& shape);
std::string to_string(const Shape& shape);  // "[4,512,384]"

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  int64_t elements() const { return num_elements(shape); }
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t dim(int64_t d) const { return shape.at(static_cast<size_t>(d < 0 ? d + rank() : d)); }
  bool operator==(const TensorType&) const = default;
};

std::string to_string(const TensorType& type);  // "f32[4,512,384]"

}  // namespace megacpp::ir
