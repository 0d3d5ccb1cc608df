// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/gemm.h"

#include <cblas.h>

#include <algorithm>

#include "megacpp/machine/runtime/blas_kernels.h"

namespace megacpp::runtime::cpu {
namespace {

// Split widths are multiples of this, so that no thread is handed a sliver the micro-kernel cannot fill.
constexpr int64_t kGrain = 16;

const float* row_of_a(const Gemm& g, int64_t row) { return g.transpose_a ? g.a + row : g.a + row * g.lda; }
const float* column_of_b(const Gemm& g, int64_t column) { return g.transpose_b ? g.b + column * g.ldb : g.b + column; }

void call_blas(const Gemm& g) {
  cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans, g.transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<blasint>(g.m), static_cast<blasint>(g.n), static_cast<blasint>(g.k), g.alpha, g.a,
              static_cast<blasint>(g.lda), g.b, static_cast<blasint>(g.ldb), g.beta, g.c, static_cast<blasint>(g.ldc));
}

// BLAS reads ahead of the panels it packs, and pays for that again and again while the pages behind them were never
// written: a 64^3 product then runs at 20 instead of 32 GFLOP/s. One product that fills the packing buffer cures that.
bool warm_up() {
  constexpr int64_t kSide = 128, kDepth = 704;
  static float zeros[kSide * kDepth] = {};
  float result[kSide * kSide];
  call_blas({.m = kSide,
             .n = kSide,
             .k = kDepth,
             .a = zeros,
             .lda = kDepth,
             .b = zeros,
             .ldb = kSide,
             .c = result,
             .ldc = kSide});
  return true;
}

void prepare_blas() {
  static const bool one_thread = (blas_kernels(), openblas_set_num_threads(1), true);
  thread_local const bool warm = warm_up();
  static_cast<void>(one_thread && warm);
}

constexpr int64_t kSmall = 64 * 64 * 64;  // below this, waking the threads costs more than they save

// One row times a matrix reads every element once: packing it first, as a product of matrices does, would triple that.
void call_blas_row(const Gemm& g) {
  // Some versions multiply by a beta of 0, which leaves a NaN that was there.
  if (g.beta == 0.0F) std::fill_n(g.c, g.n, 0.0F);
  const int64_t rows = g.transpose_b ? g.n : g.k, columns = g.transpose_b ? g.k : g.n;
  cblas_sgemv(CblasRowMajor, g.transpose_b ? CblasNoTrans : CblasTrans, static_cast<blasint>(rows),
              static_cast<blasint>(columns), g.alpha, g.b, static_cast<blasint>(g.ldb), g.a,
              static_cast<blasint>(g.transpose_a ? g.lda : 1), g.beta == 0.0F ? 1.0F : g.beta, g.c, 1);
}

void parallel_row(const Gemm& g, base::ThreadPool& pool) {
  if (g.n == 0) return;
  prepare_blas();
  if (g.k == 0 || pool.size() == 1 || g.n * g.k <= kSmall) return g.k == 0 ? call_blas(g) : call_blas_row(g);
  pool.parallel_for(g.n, kGrain, [&g](int64_t begin, int64_t end, int) {
    prepare_blas();
    Gemm part = g;
    part.n = end - begin;
    part.b = column_of_b(g, begin);
    part.c = g.c + begin;
    call_blas_row(part);
  });
}

}  // namespace

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  prepare_blas();
  call_blas(g);
}

void parallel_gemm(const Gemm& g, base::ThreadPool& pool) {
  if (g.m == 1) return parallel_row(g, pool);
  if (pool.size() == 1 || g.m * g.n * std::max<int64_t>(g.k, 1) <= kSmall) return gemm(g);
  if (g.m >= g.n) {
    pool.parallel_for(g.m, kGrain, [&g](int64_t begin, int64_t end, int) {
      Gemm part = g;
      part.m = end - begin;
      part.a = row_of_a(g, begin);
      part.c = g.c + begin * g.ldc;
      gemm(part);
    });
  } else {
    pool.parallel_for(g.n, kGrain, [&g](int64_t begin, int64_t end, int) {
      Gemm part = g;
      part.n = end - begin;
      part.b = column_of_b(g, begin);
      part.c = g.c + begin;
      gemm(part);
    });
  }
}

}  // namespace megacpp::runtime::cpu
