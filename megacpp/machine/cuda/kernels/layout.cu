// SPDX-License-Identifier: Apache-2.0
// Slice, pad, concatenate, transpose, iota.
#include "megacpp/machine/cuda/kernels/elements.cuh"
#include "megacpp/machine/cuda/kernels/layout_params.h"

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

// Where a block's tile begins, in the operand and in the result.
struct TilePlace {
  uint32_t first_across, first_down;
  int64_t from_offset = 0, to_offset = 0;  // of the other dimensions

  __device__ TilePlace(const TransposeTilesParams& p, uint32_t edge) {
    Quotient at = divided(blockIdx.x, p.tiles_across);
    first_across = at.rest * edge;
    at = divided(at.whole, p.tiles_down);
    first_down = at.rest * edge;
    uint64_t rest = at.whole;
    for (int d = p.dims - 1; d >= 0; --d) {
      const Quotient quotient = divided(rest, p.sizes[d]);
      from_offset += quotient.rest * p.from_strides[d];
      to_offset += quotient.rest * p.to_strides[d];
      rest = quotient.whole;
    }
  }
};

template <typename T>
__device__ __forceinline__ void transpose_tiles(const TransposeTilesParams& p) {
  constexpr uint32_t kEdge = transpose_edge(sizeof(T));
  __shared__ T tile[kEdge][kEdge + 4 / sizeof(T)];  // a word more: columns are read from all banks
  const TilePlace at(p, kEdge);
  const T* from = reinterpret_cast<const T*>(p.from) + at.from_offset;
  T* to = reinterpret_cast<T*>(p.to) + at.to_offset;
#pragma unroll
  for (uint32_t y = threadIdx.y; y < kEdge; y += kTransposeThreadsDown)
#pragma unroll
    for (uint32_t x = threadIdx.x; x < kEdge; x += kTransposeThreadsAcross)
      if (at.first_down + y < p.down && at.first_across + x < p.across)
        tile[y][x] = from[static_cast<int64_t>(at.first_down + y) * p.from_down + at.first_across + x];
  __syncthreads();
#pragma unroll
  for (uint32_t y = threadIdx.y; y < kEdge; y += kTransposeThreadsDown)
#pragma unroll
    for (uint32_t x = threadIdx.x; x < kEdge; x += kTransposeThreadsAcross)
      if (at.first_across + y < p.across && at.first_down + x < p.down)
        to[static_cast<int64_t>(at.first_across + y) * p.to_across + at.first_down + x] = tile[x][y];
}

// Elements of two bytes, where both sizes are whole numbers of vectors. A row of the tile is eight groups of four
// words, those of rows 8 q .. 8 q + 7 exchanged by q: a thread that reads a column of words then meets no other in its
// bank.
__device__ __forceinline__ void transpose_vectors(const TransposeTilesParams& p) {
  constexpr uint32_t kEdge = transpose_edge(2), kVectors = kEdge / kTransposeVector, kWords = kEdge / 2;
  __shared__ uint4 tile[kEdge][kVectors];
  const TilePlace at(p, kEdge);
  const uint16_t* from = reinterpret_cast<const uint16_t*>(p.from) + at.from_offset;
  uint16_t* to = reinterpret_cast<uint16_t*>(p.to) + at.to_offset;
#pragma unroll
  for (uint32_t i = threadIdx.x; i < kEdge * kVectors; i += kTransposeVectorThreads) {
    const uint32_t row = i / kVectors, group = i % kVectors;
    const uint32_t down = at.first_down + row, across = at.first_across + group * kTransposeVector;
    if (down < p.down && across < p.across)
      tile[row][group ^ row / 8] = *reinterpret_cast<const uint4*>(from + down * p.from_down + across);
  }
  __syncthreads();
  const uint32_t q = threadIdx.x % kVectors, word = threadIdx.x / kVectors;  // of rows and of a row
  const uint32_t down = at.first_down + q * kTransposeVector, across = at.first_across + 2 * word;
  static_assert(kVectors * kWords == kTransposeVectorThreads);
  if (down >= p.down || across >= p.across) return;
  uint32_t pairs[kTransposeVector];  // of neighbours across, by row
#pragma unroll
  for (uint32_t j = 0; j < kTransposeVector; ++j)
    pairs[j] = reinterpret_cast<const uint32_t*>(tile[q * kTransposeVector + j])[((word / 4) ^ q) * 4 + word % 4];
  uint4 low, high;
  low.x = __byte_perm(pairs[0], pairs[1], 0x5410), high.x = __byte_perm(pairs[0], pairs[1], 0x7632);
  low.y = __byte_perm(pairs[2], pairs[3], 0x5410), high.y = __byte_perm(pairs[2], pairs[3], 0x7632);
  low.z = __byte_perm(pairs[4], pairs[5], 0x5410), high.z = __byte_perm(pairs[4], pairs[5], 0x7632);
  low.w = __byte_perm(pairs[6], pairs[7], 0x5410), high.w = __byte_perm(pairs[6], pairs[7], 0x7632);
  *reinterpret_cast<uint4*>(to + across * p.to_across + down) = low;
  *reinterpret_cast<uint4*>(to + (across + 1) * p.to_across + down) = high;
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

extern "C" __global__ void __launch_bounds__(kTransposeVectorThreads)
    transpose_vectors_2(const __grid_constant__ TransposeTilesParams p) {
  transpose_vectors(p);
}

extern "C" __global__ void iota_f32(const __grid_constant__ IotaParams p) { count_up<float>(p); }
extern "C" __global__ void iota_bf16(const __grid_constant__ IotaParams p) { count_up<bf16>(p); }
extern "C" __global__ void iota_i32(const __grid_constant__ IotaParams p) { count_up<int32_t>(p); }
extern "C" __global__ void iota_pred(const __grid_constant__ IotaParams p) { count_up<pred>(p); }
