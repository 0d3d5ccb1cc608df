// SPDX-License-Identifier: Apache-2.0
// A host tensor of the reference evaluator: every element a double, rounded to its dtype after each op. Slow and
// obvious.
#pragma once

#include <vector>

#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::ops {

struct Tensor {
  ir::TensorType type;
  std::vector<double> data;  // row-major

  static Tensor zeros(ir::TensorType type);
  double& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
  int64_t elements() const { return static_cast<int64_t>(data.size()); }
};

/// Calls body(index) for each index of `shape` in row-major order.
template <typename Body>
void for_each_index(const ir::Shape& shape, const Body& body) {
  ir::Shape index(shape.size(), 0);
  const int64_t count = ir::num_elements(shape);
  for (int64_t i = 0; i < count; ++i) {
    body(static_cast<const ir::Shape&>(index));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

/// Row-major position of `index` in a tensor of `shape`.
int64_t flat_index(const ir::Shape& index, const ir::Shape& shape);

}  // namespace megacpp::ops
