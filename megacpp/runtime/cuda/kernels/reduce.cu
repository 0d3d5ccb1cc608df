// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over any dimensions in two passes of fixed order, and running sums. Floats are added in f32, integers
// as integers.
#include <type_traits>

#include "megacpp/runtime/cuda/kernels/elements.cuh"
#include "megacpp/runtime/cuda/kernels/reduce_params.h"

using namespace elements;
using namespace megacpp::runtime::cuda;

namespace {

constexpr int kThreads = kReduceColumns * kReduceRows;

struct Sum {
  template <typename Number>
  static __device__ __forceinline__ Number nothing() {
    return 0;
  }
  template <typename Number>
  static __device__ __forceinline__ Number of(Number a, Number b) {
    return a + b;
  }
};

struct Max {
  template <typename Number>
  static __device__ __forceinline__ Number nothing() {
    if constexpr (std::is_same_v<Number, float>)
      return -INFINITY;
    else
      return INT32_MIN;
  }
  template <typename Number>
  static __device__ __forceinline__ Number of(Number a, Number b) {
    return b > a ? b : a;
  }
};

__device__ __forceinline__ int64_t offset_of(uint64_t index, const ReduceDims& dims) {
  int64_t offset = 0;
  for (int d = dims.dims - 1; d > 0; --d) {
    const Quotient quotient = divided(index, dims.sizes[d]);
    offset += quotient.rest * dims.strides[d];
    index = quotient.whole;
  }
  return dims.dims == 0 ? 0 : offset + static_cast<int64_t>(index) * dims.strides[0];
}

template <typename T, typename Number>
__device__ __forceinline__ void keep(const ReduceParams& p, uint64_t kept, Number folded) {
  if (p.parts > 1)
    reinterpret_cast<Number*>(p.partials)[blockIdx.y * p.kept + kept] = folded;
  else
    store_one(reinterpret_cast<T*>(p.y) + kept, folded);
}

// Threads of a warp have neighbouring kept elements, the warps of a block every kReduceRows-th folded one.
template <typename T, typename Fold>
__device__ __forceinline__ void columns(const ReduceParams& p) {
  using Number = typename Storage<T>::Number;
  __shared__ Number shared[kReduceRows][kReduceColumns];
  const uint64_t kept = static_cast<uint64_t>(blockIdx.x) * kReduceColumns + threadIdx.x;
  const uint64_t begin = blockIdx.y * p.part, end = min(p.folded, begin + p.part);
  Number folded = Fold::template nothing<Number>();
  if (kept < p.kept) {
    const T* x = reinterpret_cast<const T*>(p.x) + offset_of(kept, p.kept_dims);
#pragma unroll 4
    for (uint64_t i = begin + threadIdx.y; i < end; i += kReduceRows)
      folded = Fold::of(folded, load_one(x + offset_of(i, p.folded_dims)));
  }
  shared[threadIdx.y][threadIdx.x] = folded;
  for (int half = kReduceRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.y) < half)
      shared[threadIdx.y][threadIdx.x] =
          Fold::of(shared[threadIdx.y][threadIdx.x], shared[threadIdx.y + half][threadIdx.x]);
  }
  if (threadIdx.y == 0 && kept < p.kept) keep<T>(p, kept, shared[0][threadIdx.x]);
}

// A block for each kept element: neighbours in memory are folded.
template <typename T, typename Fold>
__device__ __forceinline__ void rows(const ReduceParams& p) {
  using Number = typename Storage<T>::Number;
  __shared__ Number shared[kThreads];
  const int thread = static_cast<int>(threadIdx.y) * kReduceColumns + static_cast<int>(threadIdx.x);
  const uint64_t begin = blockIdx.y * p.part, end = min(p.folded, begin + p.part);
  const T* x = reinterpret_cast<const T*>(p.x) + offset_of(blockIdx.x, p.kept_dims);
  Number folded = Fold::template nothing<Number>();
#pragma unroll 4
  for (uint64_t i = begin + thread; i < end; i += kThreads)
    folded = Fold::of(folded, load_one(x + offset_of(i, p.folded_dims)));
  shared[thread] = folded;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] = Fold::of(shared[thread], shared[thread + half]);
  }
  if (thread == 0) keep<T>(p, blockIdx.x, shared[0]);
}

template <typename T, typename Fold>
__device__ __forceinline__ void combine(const ReduceParams& p) {
  using Number = typename Storage<T>::Number;
  const uint64_t kept = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (kept >= p.kept) return;
  Number folded = Fold::template nothing<Number>();
#pragma unroll 8
  for (int part = 0; part < p.parts; ++part)
    folded = Fold::of(folded, reinterpret_cast<const Number*>(p.partials)[part * p.kept + kept]);
  store_one(reinterpret_cast<T*>(p.y) + kept, folded);
}

// A thread for each line; those of a warp read neighbours where lines have them.
template <typename T>
__device__ __forceinline__ void running_sums(const CumsumParams& p) {
  const uint64_t line = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line >= p.lines) return;
  const Quotient at = divided(line, p.inner);
  const int64_t step = p.reverse != 0 ? -static_cast<int64_t>(p.inner) : p.inner;
  int64_t i =
      static_cast<int64_t>(at.whole) * p.size * p.inner + at.rest + (p.reverse != 0 ? (p.size - 1) * p.inner : 0);
  typename Storage<T>::Number sum = 0;
#pragma unroll 4
  for (int64_t t = 0; t < p.size; ++t, i += step) {
    sum += load_one(reinterpret_cast<const T*>(p.x) + i);
    store_one(reinterpret_cast<T*>(p.y) + i, sum);
  }
}

// A warp for each line of neighbours: thirty-two at a time, each group after the sum of those before it.
template <typename T>
__device__ __forceinline__ void running_sums_of_rows(const CumsumParams& p) {
  using Number = typename Storage<T>::Number;
  const uint64_t line = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (line >= p.lines) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = static_cast<int64_t>(line) * p.size;
  Number before = 0;
  for (int64_t group = 0; group < p.size; group += 32) {
    const int64_t t = group + lane;
    const int64_t i = first + (p.reverse != 0 ? p.size - 1 - t : t);
    Number sum = t < p.size ? load_one(reinterpret_cast<const T*>(p.x) + i) : 0;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      const Number left = __shfl_up_sync(~0U, sum, apart);
      if (lane >= apart) sum += left;
    }
    sum += before;
    if (t < p.size) store_one(reinterpret_cast<T*>(p.y) + i, sum);
    before = __shfl_sync(~0U, sum, 31);
  }
}

}  // namespace

#define MEGACPP_REDUCE(name, T, kind, Fold)                                    \
  extern "C" __global__ void __launch_bounds__(kThreads)                       \
      reduce_columns_##kind##_##name(const __grid_constant__ ReduceParams p) { \
    columns<T, Fold>(p);                                                       \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kThreads)                       \
      reduce_rows_##kind##_##name(const __grid_constant__ ReduceParams p) {    \
    rows<T, Fold>(p);                                                          \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kThreads)                       \
      reduce_combine_##kind##_##name(const __grid_constant__ ReduceParams p) { \
    combine<T, Fold>(p);                                                       \
  }

#define MEGACPP_REDUCE_AND_CUMSUM(name, T)                                                                       \
  MEGACPP_REDUCE(name, T, sum, Sum)                                                                              \
  MEGACPP_REDUCE(name, T, max, Max)                                                                              \
  extern "C" __global__ void cumsum_lines_##name(const __grid_constant__ CumsumParams p) { running_sums<T>(p); } \
  extern "C" __global__ void cumsum_rows_##name(const __grid_constant__ CumsumParams p) { running_sums_of_rows<T>(p); }

MEGACPP_REDUCE_AND_CUMSUM(f32, float)
MEGACPP_REDUCE_AND_CUMSUM(bf16, bf16)
MEGACPP_REDUCE_AND_CUMSUM(i32, int32_t)
MEGACPP_REDUCE_AND_CUMSUM(pred, pred)
