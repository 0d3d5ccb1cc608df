// SPDX-License-Identifier: Apache-2.0
// Products of x [rows, width] in bf16 with a side of N columns at most, in f32: x w, x^T y and y w^T. Each reads or
// writes x once. Sums are made in a fixed order.
#include "megacpp/machine/cuda/kernels/float_access.cuh"
#include "megacpp/machine/cuda/kernels/narrow_dot_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kEight = 8;                // of bf16 in one access
constexpr int kChunk = kLanes * kEight;  // elements of a row that a warp reads at once
constexpr uint32_t kAllLanes = 0xffffffffU;

__device__ __forceinline__ float element(const uint4& eight, int i) {
  const uint32_t pair = i < 2 ? eight.x : i < 4 ? eight.y : i < 6 ? eight.z : eight.w;
  return i % 2 == 0 ? low_of(pair) : high_of(pair);
}

// ---- x w: a warp takes 32 / N rows, so that it has 32 sums to add up over its lanes ----

// Weights as the lanes of a warp read them: four columns of one element of their eight, side by side.
template <int N>
__device__ __forceinline__ int weight_place(int element, int column) {
  const int chunk = element / kChunk, lane = element % kChunk / kEight, i = element % kEight;
  return (((chunk * kEight + i) * (N / 4) + column / 4) * kLanes + lane) * 4 + column % 4;
}

template <int N>
__device__ void keep_weights(const NarrowDotParams& p, float* kept) {
  const int chunks = static_cast<int>((p.width + kChunk - 1) / kChunk);
  const float* const weights = reinterpret_cast<const float*>(p.weights);
  for (int at = static_cast<int>(threadIdx.x); at < chunks * kChunk * N; at += kNarrowThreads) {
    const int element = at / N, column = at % N;
    kept[weight_place<N>(element, column)] =
        element < p.width && column < p.columns ? weights[element * p.columns + column] : 0.0F;
  }
  __syncthreads();
}

// Lane i of a warp gets the sum of all lanes' value i.
__device__ __forceinline__ float sum_by_lane(float (&values)[kLanes]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int step = 0; step < 5; ++step) {
    const int half = kLanes / 2 >> step;
    const bool is_upper = (lane & half) != 0;
#pragma unroll
    for (int i = 0; i < kLanes / 2; ++i) {
      if (i >= half) continue;
      const float sent = is_upper ? values[i] : values[i + half];
      const float own = is_upper ? values[i + half] : values[i];
      values[i] = own + __shfl_xor_sync(kAllLanes, sent, half);
    }
  }
  return values[0];
}

template <int N>
__device__ void multiply_rows(const NarrowDotParams& p) {
  constexpr int kRows = kLanes / N;
  extern __shared__ float4 kept[];
  keep_weights<N>(p, reinterpret_cast<float*>(kept));
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warps = kNarrowThreads / kLanes;
  const int chunks = static_cast<int>((p.width + kChunk - 1) / kChunk);
  const auto fetch = [&](int64_t row, int chunk) {
    const int64_t at = int64_t{chunk} * kChunk + lane * kEight;
    if (row >= p.rows || at >= p.width) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4*>(reinterpret_cast<const uint16_t*>(p.wide) + row * p.width + at);
  };
  const int64_t stride = int64_t{gridDim.x} * warps * kRows;
  for (int64_t first = (int64_t{blockIdx.x} * warps + threadIdx.x / kLanes) * kRows; first < p.rows; first += stride) {
    float sums[kLanes] = {};
    uint4 next[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) next[r] = fetch(first + r, 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      uint4 x[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        x[r] = next[r];
        next[r] = fetch(first + r, chunk + 1);
      }
      const float4* const own = kept + chunk * kEight * (N / 4) * kLanes + lane;
#pragma unroll
      for (int i = 0; i < kEight; ++i)
#pragma unroll
        for (int q = 0; q < N / 4; ++q) {
          const float4 w = own[(i * (N / 4) + q) * kLanes];
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float value = element(x[r], i);
            const float four[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (int c = 0; c < 4; ++c) sums[r * N + q * 4 + c] = fmaf(value, four[c], sums[r * N + q * 4 + c]);
          }
        }
    }
    const float sum = sum_by_lane(sums);
    const int64_t row = first + lane / N, column = lane % N;
    if (row < p.rows && column < p.columns) reinterpret_cast<float*>(p.narrow)[row * p.columns + column] = sum;
  }
}

// ---- x^T y and y w^T: a thread takes some columns of x and walks the rows of its block's part ----

template <int V>
struct Vector {
  uint32_t words[V / 2];

  __device__ __forceinline__ void read(uint64_t array, int64_t index) {
    const uint16_t* const from = reinterpret_cast<const uint16_t*>(array) + index;
    if constexpr (V == 8) {
      const uint4 eight = *reinterpret_cast<const uint4*>(from);
      words[0] = eight.x, words[1] = eight.y, words[2] = eight.z, words[3] = eight.w;
    } else {
      static_assert(V == 4);
      const uint2 four = *reinterpret_cast<const uint2*>(from);
      words[0] = four.x, words[1] = four.y;
    }
  }
  __device__ __forceinline__ void write(uint64_t array, int64_t index) const {
    uint16_t* const to = reinterpret_cast<uint16_t*>(array) + index;
    if constexpr (V == 8)
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    else
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  }
  __device__ __forceinline__ void clear() {
    for (uint32_t& word : words) word = 0;
  }
  __device__ __forceinline__ float operator[](int v) const {
    return v % 2 == 0 ? low_of(words[v / 2]) : high_of(words[v / 2]);
  }
};

struct Part {
  int64_t column;       // of x, the thread's first
  int64_t first, last;  // rows
};

template <int V>
__device__ Part own_part(const NarrowDotParams& p) {
  const int64_t first = int64_t{blockIdx.y} * p.part_rows, last = first + p.part_rows;
  return {.column = (int64_t{blockIdx.x} * kNarrowThreads + threadIdx.x) * V,
          .first = first,
          .last = last < p.rows ? last : p.rows};
}

// The next kNarrowTile rows of the narrow side, zeros behind its last column and row.
template <int N>
__device__ void keep_tile(const NarrowDotParams& p, const Part& part, int64_t row, float* tile) {
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < kNarrowTile * N; at += kNarrowThreads) {
    const int64_t own = row + at / N, column = at % N;
    tile[at] = own < part.last && column < p.columns
                   ? reinterpret_cast<const float*>(p.narrow)[own * p.columns + column]
                   : 0.0F;
  }
  __syncthreads();
}

template <int N>
__device__ __forceinline__ void read_tile_row(const float4* tile, int row, float (&y)[N]) {
#pragma unroll
  for (int q = 0; q < N / 4; ++q) {
    const float4 four = tile[row * (N / 4) + q];
    y[4 * q] = four.x, y[4 * q + 1] = four.y, y[4 * q + 2] = four.z, y[4 * q + 3] = four.w;
  }
}

template <int N>
__device__ void sum_over_rows(const NarrowDotParams& p) {
  constexpr int V = narrow_vector(N), kAtOnce = 4;
  __shared__ float4 tile[kNarrowTile * N / 4];
  const Part part = own_part<V>(p);
  const bool is_inside = part.column < p.width;
  float sums[V][N] = {};
  for (int64_t row = part.first; row < part.last; row += kNarrowTile) {
    keep_tile<N>(p, part, row, reinterpret_cast<float*>(tile));
    if (!is_inside) continue;
#pragma unroll 1
    for (int from = 0; from < kNarrowTile; from += kAtOnce) {
      Vector<V> x[kAtOnce];
#pragma unroll
      for (int s = 0; s < kAtOnce; ++s) {
        x[s].clear();
        if (row + from + s < part.last) x[s].read(p.wide, (row + from + s) * p.width + part.column);
      }
#pragma unroll
      for (int s = 0; s < kAtOnce; ++s) {
        float y[N];
        read_tile_row<N>(tile, from + s, y);
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
          for (int n = 0; n < N; ++n) sums[v][n] = fmaf(x[s][v], y[n], sums[v][n]);
      }
    }
  }
  if (!is_inside) return;
  float* const partial = reinterpret_cast<float*>(p.partial) + (int64_t{blockIdx.y} * p.width + part.column) * N;
  for (int v = 0; v < V; ++v) store_f32(sums[v], partial + v * N);
}

// The parts of x^T y: kNarrowSumRuns runs of them in their order, and then these.
template <int N>
__device__ void sum_parts(const NarrowDotParams& p) {
  __shared__ float sums[kNarrowSumRuns][kNarrowSumColumns];
  const int64_t count = p.width * N, index = int64_t{blockIdx.x} * kNarrowSumColumns + threadIdx.x;
  float sum = 0.0F;
  if (index < count) {
    const float* const partial = reinterpret_cast<const float*>(p.partial) + index;
#pragma unroll 8
    for (int64_t part = threadIdx.y; part < p.parts; part += kNarrowSumRuns) sum += partial[part * count];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || index >= count || index % N >= p.columns) return;
  for (int run = 1; run < kNarrowSumRuns; ++run) sum += sums[run][threadIdx.x];
  reinterpret_cast<float*>(p.weights)[index / N * p.columns + index % N] = sum;
}

template <int N>
__device__ void spread_rows(const NarrowDotParams& p) {
  constexpr int V = narrow_vector(N), kAtOnce = 4;
  __shared__ float4 tile[kNarrowTile * N / 4];
  const Part part = own_part<V>(p);
  const bool is_inside = part.column < p.width;
  float weights[V][N];
  for (int v = 0; v < V; ++v)
#pragma unroll
    for (int n = 0; n < N; ++n)
      weights[v][n] = is_inside && n < p.columns
                          ? reinterpret_cast<const float*>(p.weights)[(part.column + v) * p.columns + n]
                          : 0.0F;
  for (int64_t row = part.first; row < part.last; row += kNarrowTile) {
    keep_tile<N>(p, part, row, reinterpret_cast<float*>(tile));
    if (!is_inside) continue;
#pragma unroll 1
    for (int from = 0; from < kNarrowTile; from += kAtOnce) {
      Vector<V> more[kAtOnce];
#pragma unroll
      for (int s = 0; s < kAtOnce; ++s) {
        more[s].clear();
        if (p.addend != 0 && row + from + s < part.last)
          more[s].read(p.addend, (row + from + s) * p.width + part.column);
      }
#pragma unroll
      for (int s = 0; s < kAtOnce; ++s) {
        float y[N], sums[V];
        read_tile_row<N>(tile, from + s, y);
#pragma unroll
        for (int v = 0; v < V; ++v) {
          sums[v] = 0.0F;
#pragma unroll
          for (int n = 0; n < N; ++n) sums[v] = fmaf(weights[v][n], y[n], sums[v]);
          sums[v] += more[s][v];
        }
        Vector<V> out;
#pragma unroll
        for (int v = 0; v < V; v += 2) out.words[v / 2] = to_bf16_pair(sums[v], sums[v + 1]);
        if (row + from + s < part.last) out.write(p.wide, (row + from + s) * p.width + part.column);
      }
    }
  }
}

}  // namespace

#define MEGACPP_NARROW_DOT(N)                                                     \
  extern "C" __global__ void __launch_bounds__(kNarrowThreads, 2)                 \
      narrow_rows_##N(const __grid_constant__ NarrowDotParams p) {                \
    multiply_rows<N>(p);                                                          \
  }                                                                               \
  extern "C" __global__ void __launch_bounds__(kNarrowThreads, 2)                 \
      narrow_sums_##N(const __grid_constant__ NarrowDotParams p) {                \
    sum_over_rows<N>(p);                                                          \
  }                                                                               \
  extern "C" __global__ void __launch_bounds__(kNarrowThreads, 2)                 \
      narrow_spread_##N(const __grid_constant__ NarrowDotParams p) {              \
    spread_rows<N>(p);                                                            \
  }                                                                               \
  extern "C" __global__ void __launch_bounds__(kNarrowSumColumns* kNarrowSumRuns) \
      narrow_total_##N(const __grid_constant__ NarrowDotParams p) {               \
    sum_parts<N>(p);                                                              \
  }
MEGACPP_NARROW_DOT(8)
MEGACPP_NARROW_DOT(16)
#undef MEGACPP_NARROW_DOT

}  // namespace megacpp::runtime::cuda
