// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/nonnegative_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "megacpp/core/base/philox.h"

namespace megacpp::catalog {
namespace {

double objective(const std::vector<FitRow>& rows, const std::vector<double>& f, double pull) {
  double sum = 0;
  for (const FitRow& row : rows) {
    double error = -row.target;
    for (size_t i = 0; i < f.size(); ++i) error += row.values[i] * f[i];
    sum += row.weight * error * error;
  }
  for (const double factor : f) sum += pull * (factor - 1) * (factor - 1);
  return sum;
}

/// Gauss with pivoting.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double times = a[i][k] / a[k][k];
      for (size_t j = k; j < n; ++j) a[i][j] -= times * a[k][j];
      b[i] -= times * b[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

/// Tries every set of factors that may be above zero and takes the best answer without negative ones.
std::vector<double> by_trying_all(const std::vector<FitRow>& rows, size_t factors, double pull) {
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t set = 0; set < size_t{1} << factors; ++set) {
    std::vector<size_t> used;
    for (size_t i = 0; i < factors; ++i)
      if ((set >> i & 1) != 0) used.push_back(i);
    std::vector<std::vector<double>> h(used.size(), std::vector<double>(used.size(), 0));
    std::vector<double> c(used.size(), pull), f(factors, 0);
    for (size_t i = 0; i < used.size(); ++i) h[i][i] = pull;
    for (const FitRow& row : rows)
      for (size_t i = 0; i < used.size(); ++i) {
        c[i] += row.weight * row.values[used[i]] * row.target;
        for (size_t j = 0; j < used.size(); ++j) h[i][j] += row.weight * row.values[used[i]] * row.values[used[j]];
      }
    const std::vector<double> solved = solve(h, c);
    bool legal = true;
    for (size_t i = 0; i < used.size(); ++i) {
      f[used[i]] = solved[i];
      legal &= solved[i] >= 0;
    }
    if (legal && objective(rows, f, pull) < least) least = objective(rows, best = f, pull);
  }
  return best;
}

TEST(NonnegativeFitTest, EqualsTryingEverySetOfFactors) {
  const base::Philox random(7, "fit");
  uint64_t drawn = 0;
  const auto uniform = [&] { return random.uniform(drawn++); };
  int zeros = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t factors = 1 + static_cast<size_t>(uniform() * 5);
    std::vector<FitRow> rows(static_cast<size_t>(uniform() * 12));
    for (FitRow& row : rows) {
      for (size_t i = 0; i < factors; ++i) row.values.push_back(uniform());
      row.target = uniform() * 2;
      row.weight = uniform();
    }
    const double pull = std::pow(10.0, -4 * uniform());
    const std::vector<double> fast = fit_nonnegative(rows, pull, std::vector<double>(factors, uniform() * 3)),
                              slow = by_trying_all(rows, factors, pull);
    for (size_t i = 0; i < factors; ++i) {
      EXPECT_NEAR(fast[i], slow[i], 1e-7) << "round " << round;
      zeros += fast[i] == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(zeros, 10);  // the bound was met
}

TEST(NonnegativeFitTest, WithoutRowsEveryFactorIsOne) {
  EXPECT_EQ(fit_nonnegative({}, 0.1, {0.0, 1.0, 7.0}), std::vector<double>(3, 1.0));
}

}  // namespace
}  // namespace megacpp::catalog
