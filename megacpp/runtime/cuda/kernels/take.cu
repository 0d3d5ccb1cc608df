// SPDX-License-Identifier: Apache-2.0
// Rows of a table by index, and its transpose: sums of rows by index. The sum keeps the order of the places without
// sorting: every warp owns some rows of the table and looks at all ids twice, first to count those of its rows and
// those of rows before, then to note the places of its own.
#include "megacpp/runtime/cuda/kernels/elements.cuh"
#include "megacpp/runtime/cuda/kernels/take_params.h"

using namespace elements;
using namespace megacpp::runtime::cuda;

namespace {

template <typename Unit>
__device__ __forceinline__ void take_rows(const TakeParams& p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;
  const int64_t id = reinterpret_cast<const int32_t*>(p.ids)[row];
  const Unit* from = reinterpret_cast<const Unit*>(p.table) + id * p.width;
  Unit* to = reinterpret_cast<Unit*>(p.to) + row * p.width;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < p.width; i += step) to[i] = from[i];
}

// Calls found(id, whether it is of the warp's rows, place) with thirty-two ids at a time, in their order; ids behind
// the last are of no row.
template <typename Found>
__device__ __forceinline__ void for_ids(const ScatterOrderParams& p, int32_t first, const Found& found) {
  constexpr int kAtOnce = 8;  // chunks, so that their loads overlap
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t* ids = reinterpret_cast<const int32_t*>(p.ids);
  for (int64_t chunk = 0; chunk < p.count; chunk += 32 * kAtOnce) {
    int32_t id[kAtOnce];
#pragma unroll
    for (int c = 0; c < kAtOnce; ++c) {
      const int64_t place = chunk + c * 32 + lane;
      id[c] = place < p.count ? ids[place] : INT32_MAX;
    }
#pragma unroll
    for (int c = 0; c < kAtOnce; ++c) {
      const int32_t own = id[c] - first;
      found(id[c], own >= 0 && own < kScatterRowsPerWarp, chunk + c * 32 + lane);
    }
  }
}

__device__ __forceinline__ void order_places(const ScatterOrderParams& p) {
  __shared__ int32_t shared[kScatterWarps][kScatterRowsPerWarp];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t first = (static_cast<int32_t>(blockIdx.x) * kScatterWarps + warp) * kScatterRowsPerWarp;
  if (first >= p.rows) return;
  int32_t* next = shared[warp];
  for (int r = lane; r < kScatterRowsPerWarp; r += 32) next[r] = 0;
  __syncwarp();
  int32_t before = 0;
  for_ids(p, first, [&](int32_t id, bool own, int64_t) {
    before += __popc(__ballot_sync(~0U, id < first));
    if (__ballot_sync(~0U, own) == 0) return;
    const uint32_t alike = __match_any_sync(~0U, own ? id : -1);
    if (own && lane == __ffs(static_cast<int>(alike)) - 1) next[id - first] += __popc(alike);
    __syncwarp();
  });
  int32_t* starts = reinterpret_cast<int32_t*>(p.starts);
  for (int half = 0; half < kScatterRowsPerWarp; half += 32) {  // counts to where each row begins
    const int32_t own = next[half + lane];
    int32_t sum = own;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      const int32_t left = __shfl_up_sync(~0U, sum, apart);
      if (lane >= apart) sum += left;
    }
    next[half + lane] = before + sum - own;
    if (first + half + lane < p.rows) starts[first + half + lane] = before + sum - own;
    before += __shfl_sync(~0U, sum, 31);
  }
  if (lane == 0 && first + kScatterRowsPerWarp >= p.rows) starts[p.rows] = before;
  __syncwarp();
  for_ids(p, first, [&](int32_t id, bool own, int64_t place) {
    if (__ballot_sync(~0U, own) == 0) return;
    const uint32_t alike = __match_any_sync(~0U, own ? id : -1);
    const int earlier = __popc(alike & ((1U << lane) - 1));
    if (own) reinterpret_cast<int32_t*>(p.order)[next[id - first] + earlier] = static_cast<int32_t>(place);
    __syncwarp();
    if (own && earlier == 0) next[id - first] += __popc(alike);
    __syncwarp();
  });
}

template <typename T, int kVector>
__device__ __forceinline__ void sum_places(const ScatterSumParams& p) {
  constexpr int kAtOnce = 8;  // places, so that their loads overlap
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;
  const int32_t* starts = reinterpret_cast<const int32_t*>(p.starts);
  const int32_t* order = reinterpret_cast<const int32_t*>(p.order);
  const T* values = reinterpret_cast<const T*>(p.values);
  const int32_t begin = starts[row], end = starts[row + 1];
  const int64_t width = p.vectors * kVector;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.x;
  for (int64_t v = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; v < p.vectors; v += step) {
    float sum[kVector] = {};
    int32_t i = begin;
    for (; i + kAtOnce <= end; i += kAtOnce) {
      float x[kAtOnce][kVector];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) load<kVector>(values + order[i + a] * width + v * kVector, x[a]);
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a)
#pragma unroll
        for (int k = 0; k < kVector; ++k) sum[k] += x[a][k];
    }
    for (; i < end; ++i) {
      float x[kVector];
      load<kVector>(values + order[i] * width + v * kVector, x);
#pragma unroll
      for (int k = 0; k < kVector; ++k) sum[k] += x[k];
    }
    store<kVector>(reinterpret_cast<T*>(p.table) + row * width + v * kVector, sum);
  }
}

}  // namespace

#define MEGACPP_TAKE(bytes, Unit) \
  extern "C" __global__ void take_##bytes(const __grid_constant__ TakeParams p) { take_rows<Unit>(p); }

MEGACPP_TAKE(1, uint8_t)
MEGACPP_TAKE(2, uint16_t)
MEGACPP_TAKE(4, uint32_t)
MEGACPP_TAKE(8, uint2)
MEGACPP_TAKE(16, uint4)

extern "C" __global__ void __launch_bounds__(32 * kScatterWarps)
    scatter_order(const __grid_constant__ ScatterOrderParams p) {
  order_places(p);
}

// Name of the values' storage, read in vectors of sixteen bytes or one by one.
#define MEGACPP_SCATTER_SUM(name, T, spread, vector)                              \
  extern "C" __global__ void __launch_bounds__(256)                               \
      scatter_sum_##name##_##spread(const __grid_constant__ ScatterSumParams p) { \
    sum_places<T, vector>(p);                                                     \
  }

MEGACPP_SCATTER_SUM(f32, float, vector, 4)
MEGACPP_SCATTER_SUM(f32, float, single, 1)
MEGACPP_SCATTER_SUM(bf16, bf16, vector, 8)
MEGACPP_SCATTER_SUM(bf16, bf16, single, 1)
