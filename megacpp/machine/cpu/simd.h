// SPDX-License-Identifier: Apache-2.0
// Vector routines over rows of floats, dispatched once per call to the widest instruction set of the machine
// (Highway). Kernels are made of these and of gemm.h. y may equal x everywhere. n may be any length.
// Functions are within a few ulp of the exact ones and keep their infinities and NaN; exp gives 0 for results below the
// normal range; sin and cos hold for |x| <= 39000.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cpu {

// y[i] = f(x[i])
void row_exp(const float* x, float* y, int64_t n);
void row_log(const float* x, float* y, int64_t n);
void row_log1p(const float* x, float* y, int64_t n);
void row_tanh(const float* x, float* y, int64_t n);
void row_logistic(const float* x, float* y, int64_t n);
void row_sqrt(const float* x, float* y, int64_t n);
void row_rsqrt(const float* x, float* y, int64_t n);
void row_sin(const float* x, float* y, int64_t n);
void row_cos(const float* x, float* y, int64_t n);
void row_neg(const float* x, float* y, int64_t n);
void row_abs(const float* x, float* y, int64_t n);
void row_sign(const float* x, float* y, int64_t n);

// z[i] = a[i] op b[i]
void row_add(const float* a, const float* b, float* z, int64_t n);
void row_sub(const float* a, const float* b, float* z, int64_t n);
void row_mul(const float* a, const float* b, float* z, int64_t n);
void row_div(const float* a, const float* b, float* z, int64_t n);
void row_max(const float* a, const float* b, float* z, int64_t n);
void row_min(const float* a, const float* b, float* z, int64_t n);
// z[i] = 1 or 0
void row_lt(const float* a, const float* b, float* z, int64_t n);
void row_le(const float* a, const float* b, float* z, int64_t n);
void row_eq(const float* a, const float* b, float* z, int64_t n);
void row_ne(const float* a, const float* b, float* z, int64_t n);
// z[i] = p[i] != 0 ? a[i] : b[i]
void row_select(const float* p, const float* a, const float* b, float* z, int64_t n);

void row_fill(float value, float* y, int64_t n);
void row_scale(float factor, const float* x, float* y, int64_t n);      // y = factor * x
void row_offset(float amount, const float* x, float* y, int64_t n);     // y = x + amount
void row_axpy(float factor, const float* x, float* y, int64_t n);       // y += factor * x
void row_mul_add(const float* a, const float* b, float* y, int64_t n);  // y += a * b

float row_sum(const float* x, int64_t n);
float row_max_value(const float* x, int64_t n);  // -inf for n = 0
float row_dot(const float* a, const float* b, int64_t n);
float row_sum_squares(const float* x, int64_t n);
/// y[i] = exp(x[i] - shift); returns their sum.
float row_exp_sum(const float* x, float shift, float* y, int64_t n);

}  // namespace megacpp::runtime::cpu
