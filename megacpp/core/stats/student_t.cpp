// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/stats/student_t.h"

#include <math.h>

#include <cmath>

#include "megacpp/core/base/error.h"

namespace megacpp::stats {
namespace {

// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8) by Lentz's method; converges
// fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr int kMaxTerms = 300;
  constexpr double kTiny = 1e-300, kEnough = 1e-14;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double value = d;
  for (int m = 1; m <= kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    value *= d * c;
    if (std::abs(d * c - 1) < kEnough) break;
  }
  return value;
}

// std::lgamma writes to a variable that all threads share.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// The regularized incomplete beta function I_x(a, b).
double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a : 1 - front * beta_fraction(1 - x, b, a) / b;
}

}  // namespace

double student_t_cdf(double t, double degrees) {
  MEGACPP_CHECK(degrees > 0) << degrees;
  const double tail = incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2;
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double probability, double degrees) {
  MEGACPP_CHECK(probability > 0 && probability < 1) << probability;
  double low = -1, high = 1;
  while (student_t_cdf(low, degrees) > probability) low *= 2;
  while (student_t_cdf(high, degrees) < probability) high *= 2;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (student_t_cdf(middle, degrees) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace megacpp::stats
