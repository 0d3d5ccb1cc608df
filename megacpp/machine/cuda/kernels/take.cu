// SPDX-License-Identifier: Apache-2.0
// Rows of a table by index, and its transpose: sums of rows by index. The index past the last row stands for none.
// Places are sorted by id, those of one id stay in their order, and sums are made in that order: the same bits every
// time.
#include "megacpp/machine/cuda/kernels/elements.cuh"
#include "megacpp/machine/cuda/kernels/take_params.h"

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
  for (int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < p.width; i += step)
    to[i] = id == p.table_rows ? Unit{} : from[i];
}

// ---- Sorted places

constexpr int kScatterWarps = kScatterThreads / 32;
constexpr int kScatterRounds = kScatterPlaces / kScatterThreads;  // a warp has neighbouring places, 32 in each round

// What a block knows of its places: those of a lane, and among the places of its warp how many before have its digit.
struct Digits {
  int32_t place[kScatterRounds], digit[kScatterRounds], earlier[kScatterRounds];

  // Leaves the numbers of digits of each warp in `counts`.
  __device__ Digits(const ScatterOrderParams& p, int32_t (&counts)[kScatterWarps][kScatterDigits]) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int d = lane; d < kScatterDigits; d += 32) counts[warp][d] = 0;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kScatterPlaces + warp * (32 * kScatterRounds) + lane;
    const int32_t* from = reinterpret_cast<const int32_t*>(p.from);
#pragma unroll
    for (int r = 0; r < kScatterRounds; ++r) {
      const int64_t i = first + r * 32;
      place[r] = i >= p.count ? -1 : from == nullptr ? static_cast<int32_t>(i) : from[i];
    }
#pragma unroll
    for (int r = 0; r < kScatterRounds; ++r)
      digit[r] =
          place[r] < 0 ? -1 : reinterpret_cast<const int32_t*>(p.ids)[place[r]] >> p.shift & (kScatterDigits - 1);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kScatterRounds; ++r) {
      const uint32_t alike = __match_any_sync(~0U, digit[r]);
      const int before = __popc(alike & ((1U << lane) - 1));
      const bool is_place = digit[r] >= 0;
      earlier[r] = is_place ? counts[warp][digit[r]] + before : 0;
      __syncwarp();
      if (is_place && before == 0) counts[warp][digit[r]] += __popc(alike);
      __syncwarp();
    }
    __syncthreads();
  }
};

__device__ __forceinline__ void count_digits(const ScatterOrderParams& p) {
  __shared__ int32_t counts[kScatterWarps][kScatterDigits];
  const Digits digits(p, counts);
  int32_t sum = 0;
  for (int w = 0; w < kScatterWarps; ++w) sum += counts[w][threadIdx.x];
  reinterpret_cast<int32_t*>(p.counts)[static_cast<int64_t>(blockIdx.x) * kScatterDigits + threadIdx.x] = sum;
}

// The sum of the threads before this one.
__device__ __forceinline__ int32_t sum_before(int32_t own, int32_t (&shared)[kScatterWarps]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int32_t sum = own;
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const int32_t left = __shfl_up_sync(~0U, sum, apart);
    if (lane >= apart) sum += left;
  }
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += shared[w];
  return sum - own;
}

__device__ __forceinline__ void move_places(const ScatterOrderParams& p) {
  __shared__ int32_t counts[kScatterWarps][kScatterDigits];
  __shared__ int32_t sums[kScatterWarps];
  const Digits digits(p, counts);
  // A thread for each digit: where the places of this block with it go, from the digits before and the blocks before.
  int32_t all = 0, before = 0;
#pragma unroll 8
  for (uint32_t block = 0; block < gridDim.x; ++block) {
    const int32_t own = reinterpret_cast<const int32_t*>(p.counts)[block * kScatterDigits + threadIdx.x];
    all += own;
    if (block < blockIdx.x) before += own;
  }
  int32_t at = sum_before(all, sums) + before;
  for (int w = 0; w < kScatterWarps; ++w) {
    const int32_t own = counts[w][threadIdx.x];
    counts[w][threadIdx.x] = at;
    at += own;
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int r = 0; r < kScatterRounds; ++r) {
    if (digits.digit[r] < 0) continue;
    const int32_t to = counts[warp][digits.digit[r]] + digits.earlier[r];
    reinterpret_cast<int32_t*>(p.to)[to] = digits.place[r];
    if (p.sorted != 0)
      reinterpret_cast<int32_t*>(p.sorted)[to] = reinterpret_cast<const int32_t*>(p.ids)[digits.place[r]];
  }
}

__device__ __forceinline__ void find_starts(const ScatterStartsParams& p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row > p.rows) return;
  const int32_t* sorted = reinterpret_cast<const int32_t*>(p.sorted);
  int64_t low = 0, high = p.count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sorted[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  reinterpret_cast<int32_t*>(p.starts)[row] = static_cast<int32_t>(low);
}

// ---- Sums

constexpr int kAtOnce = 8;  // rows that a thread reads, so that their loads overlap

// The rows of one tile; a thread has vectors of them.
template <typename T, int kVector>
__device__ __forceinline__ void sum_tile(const ScatterSumParams& p) {
  __shared__ int32_t places[kScatterTile], ids[kScatterTile];
  const int64_t tile = blockIdx.x, begin = tile * kScatterTile;
  const int count = static_cast<int>(min(static_cast<int64_t>(kScatterTile), p.count - begin));
  const int32_t* sorted = reinterpret_cast<const int32_t*>(p.sorted) + begin;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    places[i] = reinterpret_cast<const int32_t*>(p.order)[begin + i];
    ids[i] = sorted[i];
  }
  const bool began_before = begin > 0 && sorted[-1] == sorted[0];
  const bool goes_on = begin + count < p.count && sorted[count] == sorted[count - 1];
  __syncthreads();
  const int64_t width = p.vectors * kVector;
  const T* values = reinterpret_cast<const T*>(p.values);
  T* table = reinterpret_cast<T*>(p.table);
  float* partials = reinterpret_cast<float*>(p.partials) + 2 * tile * width;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.x;
  for (int64_t v = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; v < p.vectors; v += step) {
    float sum[kVector] = {};
    bool is_first = true;  // row of the tile
    const auto add = [&](int i, const float* x) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) sum[k] += x[k];
      const bool is_last = i + 1 == count;
      if (!is_last && ids[i + 1] == ids[i]) return;
      if (is_first && began_before)
        store<kVector>(partials + v * kVector, sum);
      else if (is_last && goes_on)
        store<kVector>(partials + width + v * kVector, sum);
      else if (ids[i] < p.rows)
        store<kVector>(table + ids[i] * width + v * kVector, sum);
      is_first = false;
#pragma unroll
      for (int k = 0; k < kVector; ++k) sum[k] = 0.0F;
    };
    int i = 0;
    for (; i + kAtOnce <= count; i += kAtOnce) {
      float x[kAtOnce][kVector];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) load<kVector>(values + places[i + a] * width + v * kVector, x[a]);
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) add(i + a, x[a]);
    }
    for (; i < count; ++i) {
      float x[kVector];
      load<kVector>(values + places[i] * width + v * kVector, x);
      add(i, x);
    }
  }
}

template <typename T, int kVector>
__device__ __forceinline__ void sum_parts(const ScatterSumParams& p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;
  const int32_t* starts = reinterpret_cast<const int32_t*>(p.starts);
  const int32_t begin = starts[row], end = starts[row + 1];
  const int first = begin / kScatterTile;
  const int stop = end == begin ? first : (end + kScatterTile - 1) / kScatterTile;  // tiles [first, stop)
  if (stop == first + 1) return;                                                    // the tile has written it
  const int64_t width = p.vectors * kVector;
  const float* partials = reinterpret_cast<const float*>(p.partials);
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.x;
  for (int64_t v = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; v < p.vectors; v += step) {
    float sum[kVector] = {};
    const auto part = [&](int tile, int which, float* x) {
      load<kVector>(partials + (2 * tile + which) * width + v * kVector, x);
    };
    const auto add = [&](const float* x) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) sum[k] += x[k];
    };
    int tile = first;
    if (end > begin) part(tile++, 1, sum);
    for (; tile + kAtOnce <= stop; tile += kAtOnce) {
      float x[kAtOnce][kVector];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) part(tile + a, 0, x[a]);
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) add(x[a]);
    }
    for (; tile < stop; ++tile) {
      float x[kVector];
      part(tile, 0, x);
      add(x);
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

extern "C" __global__ void __launch_bounds__(kScatterThreads)
    scatter_count(const __grid_constant__ ScatterOrderParams p) {
  count_digits(p);
}
extern "C" __global__ void __launch_bounds__(kScatterThreads)
    scatter_order(const __grid_constant__ ScatterOrderParams p) {
  move_places(p);
}
extern "C" __global__ void scatter_starts(const __grid_constant__ ScatterStartsParams p) { find_starts(p); }

// Name of the values' storage, read in vectors of sixteen bytes or one by one.
#define MEGACPP_SCATTER_SUM(name, T, spread, vector)                                \
  extern "C" __global__ void __launch_bounds__(256)                                 \
      scatter_tiles_##name##_##spread(const __grid_constant__ ScatterSumParams p) { \
    sum_tile<T, vector>(p);                                                         \
  }                                                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                 \
      scatter_parts_##name##_##spread(const __grid_constant__ ScatterSumParams p) { \
    sum_parts<T, vector>(p);                                                        \
  }

MEGACPP_SCATTER_SUM(f32, float, vector, 4)
MEGACPP_SCATTER_SUM(f32, float, single, 1)
MEGACPP_SCATTER_SUM(bf16, bf16, vector, 8)
MEGACPP_SCATTER_SUM(bf16, bf16, single, 1)
