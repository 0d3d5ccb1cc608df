// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace megacpp::runtime::cpu {
namespace {

using Matrix = std::vector<float>;

constexpr float kGuard = 777.0F;

Matrix random_matrix(int64_t elements, uint32_t seed) {
  Matrix matrix;
  for (int64_t i = 0; i < elements; ++i) {
    seed = seed * 1664525u + 1013904223u;
    matrix.push_back(static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1.0F);
  }
  return matrix;
}

struct Size {
  int64_t m, n, k;
};

// One product with its operands, laid out with `gap` unused elements at the end of every row.
struct Product {
  Product(Size size, bool transpose_a, bool transpose_b, float alpha, float beta, int64_t gap) {
    g = {.transpose_a = transpose_a,
         .transpose_b = transpose_b,
         .m = size.m,
         .n = size.n,
         .k = size.k,
         .alpha = alpha,
         .a = nullptr,
         .lda = (transpose_a ? size.m : size.k) + gap,
         .b = nullptr,
         .ldb = (transpose_b ? size.k : size.n) + gap,
         .beta = beta,
         .c = nullptr,
         .ldc = size.n + gap};
    a = random_matrix((transpose_a ? size.k : size.m) * g.lda, 1);
    b = random_matrix((transpose_b ? size.n : size.k) * g.ldb, 2);
    c = random_matrix(size.m * g.ldc, 3);
    for (int64_t row = 0; row < size.m; ++row)
      for (int64_t column = size.n; column < g.ldc; ++column) c[at(row * g.ldc + column)] = kGuard;
  }

  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  Gemm on(Matrix& result) {
    g.a = a.data();
    g.b = b.data();
    g.c = result.data();
    return g;
  }

  double wanted(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t i = 0; i < g.k; ++i)
      sum += static_cast<double>(a[at(g.transpose_a ? i * g.lda + row : row * g.lda + i)]) *
             b[at(g.transpose_b ? column * g.ldb + i : i * g.ldb + column)];
    const double before = g.beta == 0.0F ? 0.0 : static_cast<double>(g.beta) * c[at(row * g.ldc + column)];
    return g.alpha * sum + before;
  }

  void expect_right(const Matrix& result) const {
    const double rounding = 1e-6 * std::sqrt(static_cast<double>(g.k) + 1.0);
    for (int64_t row = 0; row < g.m; ++row) {
      for (int64_t column = 0; column < g.n; ++column) {
        const double right = wanted(row, column);
        ASSERT_NEAR(result[at(row * g.ldc + column)], right, rounding * std::max(1.0, std::fabs(right)))
            << g.m << "x" << g.n << "x" << g.k << " at " << row << "," << column;
      }
      for (int64_t column = g.n; column < g.ldc; ++column) ASSERT_EQ(result[at(row * g.ldc + column)], kGuard);
    }
  }

  Gemm g{};
  Matrix a, b, c;
};

template <typename Body>
void for_all_products(const std::vector<Size>& sizes, const Body& body) {
  for (const Size& size : sizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const float beta : {0.0F, 1.0F, -0.5F})
          for (const int64_t gap : {0, 5}) body(Product(size, transpose_a, transpose_b, 0.75F, beta, gap));
}

TEST(GemmTest, EqualsTheNaiveProduct) {
  for_all_products({{1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {1, 40, 20}, {40, 1, 20}, {16, 16, 1}}, [](Product product) {
    Matrix result = product.c;
    gemm(product.on(result));
    product.expect_right(result);
  });
}

TEST(GemmTest, ParallelEqualsTheNaiveProductForEveryPool) {
  for (const int threads : {1, 2, 3}) {
    base::ThreadPool pool(threads);
    for_all_products({{3, 5, 7}, {70, 65, 64}, {65, 70, 64}, {200, 1, 1400}, {1, 200, 1400}}, [&pool](Product product) {
      Matrix result = product.c;
      parallel_gemm(product.on(result), pool);
      product.expect_right(result);
    });
  }
}

TEST(GemmTest, PoolSizesAgreeAndOnePoolRepeatsItself) {
  for (const Size size : {Size{130, 67, 129}, Size{67, 130, 129}, Size{96, 384, 384}, Size{257, 31, 700}}) {
    Product product(size, false, false, 1.0F, 0.0F, 0);
    Matrix alone = product.c;
    gemm(product.on(alone));
    for (const int threads : {1, 2, 3}) {
      base::ThreadPool pool(threads);
      Matrix first = product.c, second = product.c;
      parallel_gemm(product.on(first), pool);
      parallel_gemm(product.on(second), pool);
      EXPECT_EQ(first, second) << threads << " threads";
      const double tolerance = 1e-6 * std::sqrt(static_cast<double>(size.k));
      for (size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(first[i], alone[i], tolerance) << threads << " threads";
    }
  }
}

TEST(GemmTest, BetaZeroIgnoresWhatStoodThere) {
  for (const Size size : {Size{5, 6, 7}, Size{80, 80, 80}, Size{5, 6, 0}}) {
    Product product(size, false, false, 1.0F, 0.0F, 0);
    Matrix result(product.c.size(), std::numeric_limits<float>::quiet_NaN());
    base::ThreadPool pool(2);
    parallel_gemm(product.on(result), pool);
    product.expect_right(result);
  }
}

TEST(GemmTest, EmptyProductsDoNothingAndEmptySumsScale) {
  for (const Size size : {Size{0, 4, 3}, Size{4, 0, 3}}) {
    Product product(size, false, false, 1.0F, 0.0F, 2);
    Matrix result = product.c;
    gemm(product.on(result));
    EXPECT_EQ(result, product.c);
  }
  Product empty_sum({4, 5, 0}, false, false, 1.0F, 0.5F, 0);
  Matrix result = empty_sum.c;
  gemm(empty_sum.on(result));
  empty_sum.expect_right(result);
}

}  // namespace
}  // namespace megacpp::runtime::cpu
