// SPDX-License-Identifier: Apache-2.0
// Slice, pad, concatenate, transpose, iota.
#include "megacpp/runtime/cuda/kernels/elements.cuh"
#include "megacpp/runtime/cuda/kernels/layout_params.h"

using namespace elements;
using namespace megacpp::runtime::cuda;

namespace {

template <typename Unit>
__device__ __forceinline__ Unit fill_unit(const uint32_t* fill) {
  if constexpr (sizeof(Unit) == 16) {
    return Unit{fill[0], fill[1], fill[2], fill[3]};
  } else if constexpr (sizeof(Unit) == 8) {
    return Unit{fill[0], fill[1]};
  } else {
    return static_cast<Unit>(fill[0]);
  }
}

template <typename Unit>
__device__ __forceinline__ void copy_rows(const CopyRowsParams& p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;
  const Unit* from = reinterpret_cast<const Unit*>(p.from) + p.from_first + row * p.from_pitch;
  Unit* to = reinterpret_cast<Unit*>(p.to) + p.to_first + row * p.to_pitch;
  const Unit fill = fill_unit<Unit>(p.fill);
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < p.count; i += step) {
    const int64_t source = i - p.low;
    to[i] = source >= 0 && source < p.inner ? from[source] : fill;
  }
}

template <typename Unit>
__device__ __forceinline__ void transpose_rows(const TransposeRowsParams& p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;
  uint64_t rest = static_cast<uint64_t>(row);
  int64_t offset = 0;
  for (int d = p.dims - 1; d >= 0; --d) {
    const Quotient quotient = divided(rest, p.sizes[d]);
    offset += quotient.rest * p.from_strides[d];
    rest = quotient.whole;
  }
  const Unit* from = reinterpret_cast<const Unit*>(p.from) + offset;
  Unit* to = reinterpret_cast<Unit*>(p.to) + row * p.inner;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < p.inner; i += step) to[i] = from[i];
}

template <typename T>
__device__ __forceinline__ void transpose_tiles(const TransposeTilesParams& p) {
  constexpr uint32_t kEdge = transpose_edge(sizeof(T));
  __shared__ T tile[kEdge][kEdge + 4 / sizeof(T)];  // a word more: columns are read from all banks
  Quotient at = divided(blockIdx.x, p.tiles_across);
  const uint32_t first_across = at.rest * kEdge;
  at = divided(at.whole, p.tiles_down);
  const uint32_t first_down = at.rest * kEdge;
  uint64_t rest = at.whole;
  int64_t from_offset = 0, to_offset = 0;
  for (int d = p.dims - 1; d >= 0; --d) {
    const Quotient quotient = divided(rest, p.sizes[d]);
    from_offset += quotient.rest * p.from_strides[d];
    to_offset += quotient.rest * p.to_strides[d];
    rest = quotient.whole;
  }
  const T* from = reinterpret_cast<const T*>(p.from) + from_offset;
  T* to = reinterpret_cast<T*>(p.to) + to_offset;
#pragma unroll
  for (uint32_t y = threadIdx.y; y < kEdge; y += kTransposeThreadsDown)
#pragma unroll
    for (uint32_t x = threadIdx.x; x < kEdge; x += kTransposeThreadsAcross)
      if (first_down + y < p.down && first_across + x < p.across)
        tile[y][x] = from[static_cast<int64_t>(first_down + y) * p.from_down + first_across + x];
  __syncthreads();
#pragma unroll
  for (uint32_t y = threadIdx.y; y < kEdge; y += kTransposeThreadsDown)
#pragma unroll
    for (uint32_t x = threadIdx.x; x < kEdge; x += kTransposeThreadsAcross)
      if (first_across + y < p.across && first_down + x < p.down)
        to[static_cast<int64_t>(first_across + y) * p.to_across + first_down + x] = tile[x][y];
}

template <typename T>
__device__ __forceinline__ void count_up(const IotaParams& p) {
  const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const uint32_t index = divided(divided(i, p.inner).whole, p.size).rest;
  store_one(reinterpret_cast<T*>(p.to) + i, static_cast<typename Storage<T>::Number>(index));
}

}  // namespace

#define MEGACPP_ROWS(bytes, Unit)                                                                                \
  extern "C" __global__ void copy_rows_##bytes(const __grid_constant__ CopyRowsParams p) { copy_rows<Unit>(p); } \
  extern "C" __global__ void transpose_rows_##bytes(const __grid_constant__ TransposeRowsParams p) {             \
    transpose_rows<Unit>(p);                                                                                     \
  }

MEGACPP_ROWS(1, uint8_t)
MEGACPP_ROWS(2, uint16_t)
MEGACPP_ROWS(4, uint32_t)
MEGACPP_ROWS(8, uint2)
MEGACPP_ROWS(16, uint4)

extern "C" __global__ void transpose_tiles_1(const __grid_constant__ TransposeTilesParams p) {
  transpose_tiles<uint8_t>(p);
}
extern "C" __global__ void transpose_tiles_2(const __grid_constant__ TransposeTilesParams p) {
  transpose_tiles<uint16_t>(p);
}
extern "C" __global__ void transpose_tiles_4(const __grid_constant__ TransposeTilesParams p) {
  transpose_tiles<uint32_t>(p);
}

extern "C" __global__ void iota_f32(const __grid_constant__ IotaParams p) { count_up<float>(p); }
extern "C" __global__ void iota_bf16(const __grid_constant__ IotaParams p) { count_up<bf16>(p); }
extern "C" __global__ void iota_i32(const __grid_constant__ IotaParams p) { count_up<int32_t>(p); }
extern "C" __global__ void iota_pred(const __grid_constant__ IotaParams p) { count_up<pred>(p); }
