// SPDX-License-Identifier: Apache-2.0
// Every routine against <cmath> in double, over every length up to a few vectors, so that bodies and tails both run.
#include "megacpp/machine/cpu/simd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kMaxLength = 70;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSentinel = 12345.0F;  // stands behind every result and must survive

using Row = std::vector<float>;

// `count` numbers evenly over [low, high].
Row spread(double low, double high, int64_t count) {
  Row row;
  for (int64_t i = 0; i < count; ++i)
    row.push_back(static_cast<float>(low + (high - low) * static_cast<double>(i) / static_cast<double>(count - 1)));
  return row;
}

// Every order of magnitude between low and high.
Row magnitudes(double low, double high) {
  Row row;
  for (double x = low; x < high; x *= 1.37) row.push_back(static_cast<float>(x));
  return row;
}

Row random_row(int64_t count, uint32_t seed) {
  Row row;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    row.push_back(static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1.0F);
  }
  return row;
}

void expect_near(float got, double wanted, double relative, double absolute, const std::string& what) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(got)) << what;
  } else if (std::isinf(static_cast<float>(wanted))) {
    EXPECT_EQ(got, static_cast<float>(wanted)) << what;
  } else {
    EXPECT_NEAR(got, wanted, relative * std::fabs(wanted) + absolute) << what;
  }
}

using Row1 = void (*)(const float*, float*, int64_t);
using Row2 = void (*)(const float*, const float*, float*, int64_t);

struct Tolerance {
  double relative = 4e-7;
  double absolute = 0.0;
};

// The routine on all of x, on each short length of it, and in place.
template <typename Wanted>
void check_unary(Row1 routine, const Wanted& wanted, const Row& x, Tolerance tolerance = {}) {
  const auto check = [&](const Row& in, int64_t n, bool in_place) {
    Row y(static_cast<size_t>(n) + 1, kSentinel);
    if (in_place) std::copy_n(in.begin(), n, y.begin());
    routine(in_place ? y.data() : in.data(), y.data(), n);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      expect_near(y[i], wanted(static_cast<double>(in[i])), tolerance.relative, tolerance.absolute,
                  "at " + std::to_string(in[i]) + ", length " + std::to_string(n));
    EXPECT_EQ(y.back(), kSentinel) << "wrote past length " << n;
  };
  check(x, static_cast<int64_t>(x.size()), false);
  for (int64_t n = 0; n <= std::min<int64_t>(kMaxLength, static_cast<int64_t>(x.size())); ++n) check(x, n, n % 2 == 0);
}

template <typename Wanted>
void check_binary(Row2 routine, const Wanted& wanted) {
  for (int64_t n = 0; n <= kMaxLength; ++n) {
    Row a = random_row(n, 1), b = random_row(n, 2), z(static_cast<size_t>(n) + 1, kSentinel);
    for (size_t i = 0; i < a.size(); i += 3) b[i] = a[i];  // comparisons meet equality
    routine(a.data(), b.data(), z.data(), n);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(z[i], wanted(a[i], b[i])) << "length " << n;
    EXPECT_EQ(z.back(), kSentinel);
    routine(a.data(), b.data(), a.data(), n);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], z[i]) << "in place, length " << n;
  }
}

TEST(SimdTest, ExpIsRightOverItsWholeRange) {
  const auto wanted = [](double x) { return std::exp(x); };
  check_unary(row_exp, wanted, spread(-87.3, 88.7228, 20011));
  check_unary(row_exp, wanted, spread(-1.0, 1.0, 4001), {.relative = 2.5e-7});
  check_unary(row_exp, wanted, magnitudes(1e-40, 1.0));
}

TEST(SimdTest, ExpOfExtremesIsZeroInfinityOrNan) {
  const auto wanted = [](double x) { return std::exp(x); };
  const Row extremes = {-kInfinity, -1e30F,    -1000.0F, -104.0F, -87.4F, 88.7229F, 89.0F, 100.0F,
                        1e30F,      kInfinity, kNan,     -kNan,   0.0F,   -0.0F,    1.0F};
  check_unary(row_exp, wanted, extremes, {.absolute = 1.2e-38});
  const Row masked(9, -1e30F);
  Row y(9);
  row_exp(masked.data(), y.data(), 9);
  for (const float value : y) EXPECT_EQ(value, 0.0F);
}

TEST(SimdTest, LogarithmsAreRight) {
  const auto log = [](double x) { return std::log(x); };
  check_unary(row_log, log, magnitudes(1e-44, 3e38), {.absolute = 1e-7});
  check_unary(row_log, log, spread(0.5, 2.0, 4001), {.absolute = 1e-7});
  check_unary(row_log, log, {0.0F, -0.0F, -1.0F, kInfinity, -kInfinity, kNan, 1.0F});
  const auto log1p = [](double x) { return std::log1p(x); };
  check_unary(row_log1p, log1p, magnitudes(1e-44, 3e38));
  check_unary(row_log1p, log1p, spread(-0.99, 3.0, 4001), {.relative = 6e-7});
  check_unary(row_log1p, log1p, {0.0F, -0.0F, -1.0F, -2.0F, kInfinity, kNan, -1e-20F, 1e-20F});
}

TEST(SimdTest, TanhIsRightNearZeroAndFarAway) {
  const auto wanted = [](double x) { return std::tanh(x); };
  check_unary(row_tanh, wanted, magnitudes(1e-40, 0.2), {.relative = 2e-6});
  check_unary(row_tanh, wanted, spread(-0.3, 0.3, 6001), {.relative = 2e-6});
  check_unary(row_tanh, wanted, spread(-12.0, 12.0, 6001), {.relative = 2e-6});
  check_unary(row_tanh, wanted, {-kInfinity, -1e30F, -50.0F, 50.0F, 1e30F, kInfinity, kNan, 0.0F, -0.0F});
}

TEST(SimdTest, LogisticIsRightAndNeverLeavesZeroToOne) {
  const auto wanted = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  check_unary(row_logistic, wanted, spread(-87.0, 87.0, 20011), {.relative = 6e-7});
  check_unary(row_logistic, wanted, {-kInfinity, -1e30F, -100.0F, 100.0F, 1e30F, kInfinity, kNan}, {.absolute = 1e-37});
}

TEST(SimdTest, RootsAreRight) {
  const Row positive = magnitudes(1e-37, 3e38);
  check_unary(
      row_sqrt, [](double x) { return std::sqrt(x); }, positive);
  check_unary(
      row_rsqrt, [](double x) { return 1.0 / std::sqrt(x); }, positive);
  check_unary(row_sqrt, [](double x) { return std::sqrt(x); }, {0.0F, kInfinity, -1.0F, kNan});
  check_unary(row_rsqrt, [](double x) { return 1.0 / std::sqrt(x); }, {0.0F, kInfinity, -1.0F, kNan});
}

TEST(SimdTest, SineAndCosineAreRight) {
  for (const double range : {3.2, 100.0, 30000.0}) {
    const Row x = spread(-range, range, 20011);
    check_unary(row_sin, [](double v) { return std::sin(v); }, x, {.relative = 1e-6, .absolute = 2e-7});
    check_unary(row_cos, [](double v) { return std::cos(v); }, x, {.relative = 1e-6, .absolute = 2e-7});
  }
  check_unary(row_sin, [](double v) { return std::sin(v); }, {kNan, 0.0F});
  check_unary(row_cos, [](double v) { return std::cos(v); }, {kNan, 0.0F});
}

TEST(SimdTest, SignsAreExact) {
  Row x = random_row(200, 7);
  for (const float special : {0.0F, -0.0F, kInfinity, -kInfinity}) x.push_back(special);
  check_unary(row_neg, [](double v) { return -v; }, x, {.relative = 0});
  check_unary(row_abs, [](double v) { return std::fabs(v); }, x, {.relative = 0});
  check_unary(row_sign, [](double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0; }, x, {.relative = 0});
}

TEST(SimdTest, BinaryRoutinesAreExact) {
  check_binary(row_add, [](float a, float b) { return a + b; });
  check_binary(row_sub, [](float a, float b) { return a - b; });
  check_binary(row_mul, [](float a, float b) { return a * b; });
  check_binary(row_div, [](float a, float b) { return a / b; });
  check_binary(row_max, [](float a, float b) { return std::max(a, b); });
  check_binary(row_min, [](float a, float b) { return std::min(a, b); });
  check_binary(row_lt, [](float a, float b) { return a < b ? 1.0F : 0.0F; });
  check_binary(row_le, [](float a, float b) { return a <= b ? 1.0F : 0.0F; });
  check_binary(row_eq, [](float a, float b) { return a == b ? 1.0F : 0.0F; });
  check_binary(row_ne, [](float a, float b) { return a != b ? 1.0F : 0.0F; });
}

TEST(SimdTest, SelectPicksByPredicate) {
  for (int64_t n = 0; n <= kMaxLength; ++n) {
    const Row a = random_row(n, 3), b = random_row(n, 4);
    Row p = random_row(n, 5), z(static_cast<size_t>(n) + 1, kSentinel);
    for (float& element : p) element = element > 0 ? element : 0.0F;
    row_select(p.data(), a.data(), b.data(), z.data(), n);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(z[i], p[i] != 0.0F ? a[i] : b[i]);
    EXPECT_EQ(z.back(), kSentinel);
  }
}

TEST(SimdTest, ScalarByRowRoutinesAreRight) {
  for (int64_t n = 0; n <= kMaxLength; ++n) {
    const Row x = random_row(n, 6), start = random_row(n, 7);
    const size_t count = x.size();
    const auto run = [&](const auto& routine, const auto& wanted) {
      Row y = start;
      y.push_back(kSentinel);
      routine(y.data());
      for (size_t i = 0; i < count; ++i) ASSERT_NEAR(y[i], wanted(i), 2e-7) << "length " << n;
      EXPECT_EQ(y.back(), kSentinel);
    };
    run([&](float* y) { row_fill(0.75F, y, n); }, [&](size_t) { return 0.75F; });
    run([&](float* y) { row_scale(0.75F, x.data(), y, n); }, [&](size_t i) { return 0.75F * x[i]; });
    run([&](float* y) { row_offset(0.75F, x.data(), y, n); }, [&](size_t i) { return x[i] + 0.75F; });
    run([&](float* y) { row_axpy(0.75F, x.data(), y, n); }, [&](size_t i) { return start[i] + 0.75F * x[i]; });
    run([&](float* y) { row_mul_add(x.data(), x.data(), y, n); }, [&](size_t i) { return start[i] + x[i] * x[i]; });
  }
}

TEST(SimdTest, FoldsAreRight) {
  for (int64_t n = 0; n <= kMaxLength; ++n) {
    const Row a = random_row(n, 8), b = random_row(n, 9);
    double sum = 0, dot = 0, squares = 0, exps = 0, largest = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < a.size(); ++i) {
      sum += a[i];
      dot += static_cast<double>(a[i]) * b[i];
      squares += static_cast<double>(a[i]) * a[i];
      exps += std::exp(static_cast<double>(a[i]) - 0.5);
      largest = std::max<double>(largest, a[i]);
    }
    const double tolerance = 1e-7 * static_cast<double>(n + 1);
    EXPECT_NEAR(row_sum(a.data(), n), sum, tolerance);
    EXPECT_NEAR(row_dot(a.data(), b.data(), n), dot, tolerance);
    EXPECT_NEAR(row_sum_squares(a.data(), n), squares, tolerance);
    EXPECT_EQ(row_max_value(a.data(), n), static_cast<float>(largest));
    Row y(a.size() + 1, kSentinel);
    EXPECT_NEAR(row_exp_sum(a.data(), 0.5F, y.data(), n), exps, 4 * tolerance);
    for (size_t i = 0; i < a.size(); ++i) expect_near(y[i], std::exp(static_cast<double>(a[i] - 0.5F)), 4e-7, 0, "exp");
    EXPECT_EQ(y.back(), kSentinel);
  }
}

TEST(SimdTest, MaxOfNegativesIsNotZero) {
  for (int64_t n = 1; n <= kMaxLength; ++n) {
    const Row x(static_cast<size_t>(n), -3.0F);
    EXPECT_EQ(row_max_value(x.data(), n), -3.0F) << "length " << n;
  }
}

}  // namespace
}  // namespace megacpp::runtime::cpu
