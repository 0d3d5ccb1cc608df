// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/transposer.h"

#include <cstring>

#include "megacpp/machine/cpu/row_grain.h"

namespace megacpp::runtime::cpu {

Transposer::Transposer(const ir::Shape& source, const std::vector<int64_t>& permutation) {
  const ir::Shape strides = ir::strides_of(source);
  for (const int64_t dim : permutation) {
    const int64_t size = source[static_cast<size_t>(dim)], stride = strides[static_cast<size_t>(dim)];
    if (size == 1) continue;
    // A dimension that continues the previous one in memory is the same dimension.
    if (!shape_.empty() && stride_.back() == stride * size) {
      shape_.back() *= size;
      stride_.back() = stride;
    } else {
      shape_.push_back(size);
      stride_.push_back(stride);
    }
  }
  if (shape_.empty()) {
    shape_.push_back(1);
    stride_.push_back(1);
  }
  rows_ = ir::num_elements(shape_) / shape_.back();
}

void Transposer::run(const float* from, float* to, base::ThreadPool& pool) const {
  pool.parallel_for(rows_, row_grain(shape_.back()),
                    [&](int64_t begin, int64_t end, int) { copy_rows(from, to, begin, end); });
}

void Transposer::copy_rows(const float* from, float* to, int64_t begin, int64_t end) const {
  const int64_t length = shape_.back(), stride = stride_.back();
  for (int64_t row = begin; row < end; ++row) {
    int64_t rest = row, offset = 0;
    for (size_t d = shape_.size() - 1; d-- > 0;) {
      offset += rest % shape_[d] * stride_[d];
      rest /= shape_[d];
    }
    const float* source = from + offset;
    float* target = to + row * length;
    if (stride == 1) {
      std::memcpy(target, source, static_cast<size_t>(length) * sizeof(float));
    } else {
      for (int64_t i = 0; i < length; ++i) target[i] = source[i * stride];
    }
  }
}

}  // namespace megacpp::runtime::cpu
