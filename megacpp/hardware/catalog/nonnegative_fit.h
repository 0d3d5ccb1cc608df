// SPDX-License-Identifier: Apache-2.0
// Small dense least squares: the factors f >= 0 that minimise
//   sum over rows of weight * (row . f - target)^2  +  pull * sum over factors of (f - 1)^2.
#pragma once

#include <cstddef>
#include <vector>

namespace megacpp::catalog {

struct FitRow {
  std::vector<double> values = {};  // one for each factor
  double target = 0;
  double weight = 1;
};

/// `pull` must be positive: it makes the answer unique however few rows there are. A `guess` near it saves time only.
std::vector<double> fit_nonnegative(const std::vector<FitRow>& rows, double pull, std::vector<double> guess);

}  // namespace megacpp::catalog
