// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/nonnegative_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::catalog {
namespace {

/// The quadratic form f'Hf - 2c'f of the problem.
struct Normal {
  std::vector<std::vector<double>> h;
  std::vector<double> c;
};

Normal normal_equations(const std::vector<FitRow>& rows, size_t factors, double pull) {
  Normal normal = {std::vector(factors, std::vector<double>(factors, 0)), std::vector<double>(factors, pull)};
  for (size_t i = 0; i < factors; ++i) normal.h[i][i] = pull;
  for (const FitRow& row : rows) {
    MEGACPP_CHECK(row.values.size() == factors) << row.values.size() << " values for " << factors << " factors";
    for (size_t i = 0; i < factors; ++i) {
      normal.c[i] += row.weight * row.values[i] * row.target;
      for (size_t j = 0; j < factors; ++j) normal.h[i][j] += row.weight * row.values[i] * row.values[j];
    }
  }
  return normal;
}

}  // namespace

// One factor at a time, each to its best value at or above zero given the others. The form is strictly convex, so this
// goes to the only minimum; a handful of factors need no faster method.
std::vector<double> fit_nonnegative(const std::vector<FitRow>& rows, double pull, std::vector<double> guess) {
  MEGACPP_CHECK(pull > 0) << pull;
  std::vector<double> f = std::move(guess);
  const size_t factors = f.size();
  const Normal normal = normal_equations(rows, factors, pull);
  constexpr int kMaxSweeps = 100'000;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double largest_change = 0;
    for (size_t i = 0; i < factors; ++i) {
      double rest = normal.c[i];
      for (size_t j = 0; j < factors; ++j)
        if (j != i) rest -= normal.h[i][j] * f[j];
      const double best = std::max(0.0, rest / normal.h[i][i]);
      largest_change = std::max(largest_change, std::abs(best - f[i]));
      f[i] = best;
    }
    if (largest_change < 1e-12) break;
  }
  return f;
}

}  // namespace megacpp::catalog
