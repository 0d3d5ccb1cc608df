// SPDX-License-Identifier: Apache-2.0
// A general product in plain f32 arithmetic, whatever the strides of its dimensions.
#include <cuda_bf16.h>

#include "megacpp/machine/cuda/kernels/dot_plain_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kStep = 16;  // of what is contracted

struct Offsets {
  int64_t lhs, rhs, out;
};

__device__ __forceinline__ Offsets offsets_at(const PlainAxes& group, int64_t index) {
  Offsets result = {};
  for (int i = group.count - 1; i >= 0; --i) {
    const PlainAxis& axis = group.axes[i];
    const int64_t here = index % axis.size;
    index /= axis.size;
    result.lhs += here * axis.lhs;
    result.rhs += here * axis.rhs;
    result.out += here * axis.out;
  }
  return result;
}

// A block: kDotPlainTile x kDotPlainTile results of one batch, four rows and four columns for every thread.
template <typename T, typename Result>
__device__ __forceinline__ void multiply(const DotPlainParams& p) {
  __shared__ float a[kStep][kDotPlainTile + 1], b[kStep][kDotPlainTile + 1];
  __shared__ int64_t row[kDotPlainTile], column[kDotPlainTile], lhs_k[kStep], rhs_k[kStep];
  __shared__ int64_t row_out[kDotPlainTile], column_out[kDotPlainTile];
  const int64_t rows = (p.m.size + kDotPlainTile - 1) / kDotPlainTile;
  const int64_t columns = (p.n.size + kDotPlainTile - 1) / kDotPlainTile;
  const int64_t m0 = blockIdx.x / columns % rows * kDotPlainTile, n0 = blockIdx.x % columns * kDotPlainTile;
  const Offsets batch = offsets_at(p.batch, blockIdx.x / (rows * columns));
  const int thread = static_cast<int>(threadIdx.x), tm = thread / 16, tn = thread % 16;
  if (thread < kDotPlainTile) {
    const Offsets m = offsets_at(p.m, m0 + thread), n = offsets_at(p.n, n0 + thread);
    row[thread] = batch.lhs + m.lhs;
    row_out[thread] = m.out;
    column[thread] = batch.rhs + n.rhs;
    column_out[thread] = batch.out + n.out;
  }
  float sum[4][4] = {};
  for (int64_t k0 = 0; k0 < p.k.size; k0 += kStep) {
    __syncthreads();
    if (thread < kStep) {
      const Offsets k = offsets_at(p.k, k0 + thread);
      lhs_k[thread] = k.lhs;
      rhs_k[thread] = k.rhs;
    }
    __syncthreads();
    for (int i = thread; i < kStep * kDotPlainTile; i += kDotPlainThreads) {
      const int k = i / kDotPlainTile, at = i % kDotPlainTile;
      const bool is_there = k0 + k < p.k.size;
      a[k][at] =
          is_there && m0 + at < p.m.size ? static_cast<float>(static_cast<const T*>(p.lhs)[row[at] + lhs_k[k]]) : 0.0F;
      b[k][at] = is_there && n0 + at < p.n.size
                     ? static_cast<float>(static_cast<const T*>(p.rhs)[column[at] + rhs_k[k]])
                     : 0.0F;
    }
    __syncthreads();
    for (int k = 0; k < kStep; ++k)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] += a[k][tm + i * 16] * b[k][tn + j * 16];
  }
  __syncthreads();
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int m = tm + i * 16, n = tn + j * 16;
      if (m0 + m >= p.m.size || n0 + n >= p.n.size) continue;
      const int64_t at = row_out[m] + column_out[n];
      const float more = p.addend != nullptr ? static_cast<float>(static_cast<const Result*>(p.addend)[at]) : 0.0F;
      static_cast<Result*>(p.result)[at] = static_cast<Result>(sum[i][j] + more);
    }
}

}  // namespace

#define MEGACPP_DOT_PLAIN(name, T, Result)                                                                        \
  extern "C" __global__ void __launch_bounds__(kDotPlainThreads) name(const __grid_constant__ DotPlainParams p) { \
    multiply<T, Result>(p);                                                                                       \
  }
MEGACPP_DOT_PLAIN(dot_plain_f32_f32, float, float)
MEGACPP_DOT_PLAIN(dot_plain_f32_bf16, float, __nv_bfloat16)
MEGACPP_DOT_PLAIN(dot_plain_bf16_f32, __nv_bfloat16, float)
MEGACPP_DOT_PLAIN(dot_plain_bf16_bf16, __nv_bfloat16, __nv_bfloat16)

extern "C" __global__ void __launch_bounds__(kDotPlainThreads) fill_random(const __grid_constant__ FillParams p) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.count; i += stride) {
    uint64_t bits = (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15ull;
    bits = (bits ^ (bits >> 31)) * 0xBF58476D1CE4E5B9ull;
    const float value = static_cast<float>(static_cast<int32_t>(bits >> 32)) * 0x1p-31F;
    if (p.is_bf16 != 0) {
      reinterpret_cast<__nv_bfloat16*>(p.data)[i] = __float2bfloat16(value);
    } else {
      reinterpret_cast<float*>(p.data)[i] = value;
    }
  }
}

}  // namespace megacpp::runtime::cuda
