// SPDX-License-Identifier: Apache-2.0
// How far a tensor is off, by Euclidean norm, as a share of what it should be.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace megacpp::testing_support {

/// 0 for equal tensors. Of a tensor that should be zero nothing is a small share: any other value is infinitely off, as
/// one of another size is. NaN where either has one.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& wanted) {
  if (got.size() != wanted.size()) return INFINITY;
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(wanted[i]);
    error += (a - b) * (a - b);
    norm += b * b;
  }
  return error == 0 ? 0 : std::sqrt(error / norm);
}

}  // namespace megacpp::testing_support
