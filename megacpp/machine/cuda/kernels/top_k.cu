// SPDX-License-Identifier: Apache-2.0
// The lanes of a row pick its elements one after the other, each time the first in order behind the one before: k is
// small, and the row stays in the first-level cache.
#include "megacpp/machine/cuda/kernels/float_access.cuh"
#include "megacpp/machine/cuda/kernels/score_order.cuh"
#include "megacpp/machine/cuda/kernels/top_k_params.h"

namespace megacpp::runtime::cuda {
namespace {

// Larger keys come first: higher scores, lower indices among equals. Never 0; NaN comes last.
__device__ uint64_t key_of(float score, int64_t index) {
  const uint32_t rank = score != score ? 0 : score_rank(score);
  return static_cast<uint64_t>(rank) << 32 | (0xffffffffU - static_cast<uint32_t>(index));
}

__device__ uint64_t largest_of(uint64_t key, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const uint64_t other = __shfl_xor_sync(0xffffffffU, key, distance);
    key = other > key ? other : key;
  }
  return key;
}

}  // namespace

extern "C" __global__ void top_k(const __grid_constant__ TopKParams p) {
  const int lanes = static_cast<int>(p.lanes), lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const int64_t width = row < p.rows ? p.width : 0;  // all lanes of a warp take part in its exchanges
  uint64_t last = UINT64_MAX;
  for (int64_t j = 0; j < p.k; ++j) {
    uint64_t best = 0;
    for (int64_t e = lane; e < width; e += lanes) {
      const uint64_t key = key_of(load_one(p.x, row * p.width + e), e);
      if (key < last && key > best) best = key;
    }
    last = largest_of(best, lanes);
    if (lane != 0 || row >= p.rows) continue;
    const int64_t index = 0xffffffffU - static_cast<uint32_t>(last);
    store_one(load_one(p.x, row * p.width + index), p.values, row * p.k + j);
    reinterpret_cast<int32_t*>(p.indices)[row * p.k + j] = static_cast<int32_t>(index);
  }
}

extern "C" __global__ void top_k_grad(const __grid_constant__ TopKGradParams p) {
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= p.rows * p.width) return;
  const int64_t row = index / p.width, place = index % p.width;
  float value = 0.0F;
  for (int64_t j = row * p.k; j < (row + 1) * p.k; ++j)
    if (reinterpret_cast<const int32_t*>(p.indices)[j] == place) value = load_one(p.dvalues, j);
  store_one(value, p.dx, index);
}

}  // namespace megacpp::runtime::cuda
