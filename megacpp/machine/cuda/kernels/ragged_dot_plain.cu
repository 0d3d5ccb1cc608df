// SPDX-License-Identifier: Apache-2.0
// The experts' products in plain f32 arithmetic: for f32 tensors, and for widths that tensor cores cannot take.
#include <cuda_bf16.h>

#include "megacpp/machine/cuda/kernels/ragged_dot_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kDepth = 32;

// A block: the rows of one segment times kPlainTile columns. Every thread has one column of eight rows.
template <typename T>
__device__ __forceinline__ void plain_dot(const PlainRaggedDotParams& p) {
  __shared__ float a[kSegmentRows][kDepth + 1];
  __shared__ float w[kDepth][kPlainTile + 1];
  const int64_t columns = (p.n + kPlainTile - 1) / kPlainTile;
  const int64_t index = blockIdx.x / columns, column = blockIdx.x % columns * kPlainTile;
  if (index >= p.lists.first[p.experts]) return;
  const Segment segment = p.lists.segments[index];
  const T* const rows = static_cast<const T*>(p.a) + int64_t{segment.row} * p.k;
  const T* const matrix = static_cast<const T*>(p.w) + int64_t{segment.expert} * p.k * p.n;
  const int own_column = static_cast<int>(threadIdx.x) % kPlainTile,
            own_row = static_cast<int>(threadIdx.x) / kPlainTile * 8;
  float sum[8] = {};
  for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kSegmentRows * kDepth; i += kPlainThreads) {
      const int row = i / kDepth, k = i % kDepth;
      const bool is_there = row < segment.used && k0 + k < p.k;
      a[row][k] = is_there ? static_cast<float>(rows[row * p.k + k0 + k]) : 0.0F;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kDepth * kPlainTile; i += kPlainThreads) {
      // Neighbours in memory for neighbouring threads, whichever way the matrix has them.
      const int k = p.w_n_stride == 1 ? i / kPlainTile : i % kDepth,
                n = p.w_n_stride == 1 ? i % kPlainTile : i / kDepth;
      const bool is_there = k0 + k < p.k && column + n < p.n;
      w[k][n] = is_there ? static_cast<float>(matrix[(k0 + k) * p.w_k_stride + (column + n) * p.w_n_stride]) : 0.0F;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k)
      for (int r = 0; r < 8; ++r) sum[r] += a[own_row + r][k] * w[k][own_column];
    __syncthreads();
  }
  for (int r = 0; r < 8; ++r) {
    if (own_row + r >= segment.used || column + own_column >= p.n) continue;
    const int64_t at = (int64_t{segment.row} + own_row + r) * p.n + column + own_column;
    const float more = p.addend != nullptr ? static_cast<float>(static_cast<const T*>(p.addend)[at]) : 0.0F;
    static_cast<T*>(p.result)[at] = static_cast<T>(sum[r] + more);
  }
}

// A block: kPlainTile x kPlainTile of one expert's gradient, four rows and four columns for every thread.
template <typename T, typename Result>
__device__ __forceinline__ void plain_weight(const PlainRaggedDotWeightParams& p) {
  __shared__ float a[kSegmentRows][kPlainTile], b[kSegmentRows][kPlainTile];
  const int64_t rows = (p.m + kPlainTile - 1) / kPlainTile, columns = (p.n + kPlainTile - 1) / kPlainTile;
  const int64_t expert = blockIdx.x / (rows * columns), tile = blockIdx.x % (rows * columns);
  const int64_t m0 = tile / columns * kPlainTile, n0 = tile % columns * kPlainTile;
  const int tm = static_cast<int>(threadIdx.x) / 16, tn = static_cast<int>(threadIdx.x) % 16;
  float sum[4][4] = {};
  for (int32_t s = p.lists.first[expert]; s < p.lists.first[expert + 1]; ++s) {
    const Segment segment = p.lists.segments[s];
    for (int i = static_cast<int>(threadIdx.x); i < kSegmentRows * kPlainTile; i += kPlainThreads) {
      const int row = i / kPlainTile, c = i % kPlainTile;
      const int64_t at = int64_t{segment.row} + row;
      const bool is_used = row < segment.used;
      a[row][c] = is_used && m0 + c < p.m ? static_cast<float>(static_cast<const T*>(p.a)[at * p.m + m0 + c]) : 0.0F;
      b[row][c] = is_used && n0 + c < p.n ? static_cast<float>(static_cast<const T*>(p.b)[at * p.n + n0 + c]) : 0.0F;
    }
    __syncthreads();
    for (int row = 0; row < kSegmentRows; ++row)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] += a[row][tm + i * 16] * b[row][tn + j * 16];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int64_t m = m0 + tm + i * 16, n = n0 + tn + j * 16;
      if (m >= p.m || n >= p.n) continue;
      const int64_t at = (expert * p.m + m) * p.n + n;
      const float more = p.addend != nullptr ? static_cast<float>(static_cast<const Result*>(p.addend)[at]) : 0.0F;
      static_cast<Result*>(p.result)[at] = static_cast<Result>(sum[i][j] + more);
    }
}

}  // namespace

#define MEGACPP_PLAIN_DOT(name, T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(kPlainThreads) name(const __grid_constant__ PlainRaggedDotParams p) { \
    plain_dot<T>(p);                                                                                                 \
  }
MEGACPP_PLAIN_DOT(ragged_dot_plain_f32, float)
MEGACPP_PLAIN_DOT(ragged_dot_plain_bf16, __nv_bfloat16)

#define MEGACPP_PLAIN_WEIGHT(name, T, Result)                      \
  extern "C" __global__ void __launch_bounds__(kPlainThreads)      \
      name(const __grid_constant__ PlainRaggedDotWeightParams p) { \
    plain_weight<T, Result>(p);                                    \
  }
MEGACPP_PLAIN_WEIGHT(ragged_dot_weight_plain_f32_f32, float, float)
MEGACPP_PLAIN_WEIGHT(ragged_dot_weight_plain_f32_bf16, float, __nv_bfloat16)
MEGACPP_PLAIN_WEIGHT(ragged_dot_weight_plain_bf16_f32, __nv_bfloat16, float)
MEGACPP_PLAIN_WEIGHT(ragged_dot_weight_plain_bf16_bf16, __nv_bfloat16, __nv_bfloat16)

}  // namespace megacpp::runtime::cuda
