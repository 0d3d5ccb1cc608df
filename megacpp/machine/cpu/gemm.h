// SPDX-License-Identifier: Apache-2.0
// Matrix products on OpenBLAS, one thread a call: threads are ours, BLAS's own are off.
#pragma once

#include <cstdint>

#include "megacpp/core/base/thread_pool.h"

namespace megacpp::runtime::cpu {

/// C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C, row-major, leading dimensions in elements.
struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m, n, k;
  float alpha = 1.0F;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float beta = 0.0F;
  float* c;
  int64_t ldc;
};

/// On the calling thread.
void gemm(const Gemm& product);

/// Split over the pool's threads along m or n, never along k. The same pool size repeats bit for bit; pool sizes agree
/// to rounding, since BLAS may pick another kernel for a narrower part (on Neoverse N1 they agree bit for bit).
void parallel_gemm(const Gemm& product, base::ThreadPool& pool);

}  // namespace megacpp::runtime::cpu
