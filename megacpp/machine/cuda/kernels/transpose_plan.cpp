// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/transpose_plan.h"

#include <cstddef>

namespace megacpp::runtime::cuda {

std::vector<TransposedDim> transposed_dims(const ir::Shape& operand, const std::vector<int64_t>& permutation) {
  const ir::Shape strides = ir::strides_of(operand);
  std::vector<TransposedDim> dims;
  for (const int64_t source : permutation) {
    const int64_t size = operand[static_cast<size_t>(source)], stride = strides[static_cast<size_t>(source)];
    if (size == 1) continue;
    if (!dims.empty() && dims.back().from_stride == stride * size) {
      dims.back().size *= size;
      dims.back().from_stride = stride;
    } else {
      dims.push_back({.size = size, .from_stride = stride, .to_stride = 0});
    }
  }
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    dims[d].to_stride = stride;
    stride *= dims[d].size;
  }
  return dims;
}

}  // namespace megacpp::runtime::cuda
