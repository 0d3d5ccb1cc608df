// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over any dimensions in two passes of fixed order, and running sums. Floats are added in f32, integers
// as integers.
#include <type_traits>

#include "megacpp/machine/cuda/kernels/elements.cuh"
#include "megacpp/machine/cuda/kernels/reduce_params.h"

using namespace elements;
using namespace megacpp::runtime::cuda;

namespace {

constexpr int kThreads = kReduceThreads;
constexpr int kAtOnce = 4;  // accesses of a thread, so that their loads overlap

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

// Of the first `count` dimensions.
__device__ __forceinline__ int64_t offset_of(uint64_t index, const ReduceDims& dims, int count) {
  int64_t offset = 0;
  for (int d = count - 1; d > 0; --d) {
    const Quotient quotient = divided(index, dims.sizes[d]);
    offset += quotient.rest * dims.strides[d];
    index = quotient.whole;
  }
  return count == 0 ? 0 : offset + static_cast<int64_t>(index) * dims.strides[0];
}

// Goes through folded accesses, every step-th, without a division for each: along the last dimension, and on to the
// next index of those before it where that ends.
struct FoldWalk {
  const ReduceDims& dims;
  uint32_t size, inner;  // of the last dimension
  uint64_t outer;
  uint32_t step_inner;
  uint64_t step_outer;

  __device__ FoldWalk(const ReduceDims& folded, uint64_t first, uint32_t step)
      : dims(folded), size(folded.dims == 0 ? 1 : folded.sizes[folded.dims - 1]) {
    const Quotient at = divided(first, size), by = divided(step, size);
    inner = at.rest;
    outer = at.whole;
    step_inner = by.rest;
    step_outer = by.whole;
  }
  // Of where it stands; then goes a step.
  __device__ __forceinline__ int64_t next() {
    const int64_t offset =
        dims.dims == 0 ? 0 : offset_of(outer, dims, dims.dims - 1) + inner * dims.strides[dims.dims - 1];
    inner += step_inner;
    outer += step_outer;
    if (inner >= size) {
      inner -= size;
      ++outer;
    }
    return offset;
  }
};

// Element by element of vectors, over the accesses first, first + step, ... before `end`.
template <typename T, typename Fold, int V>
__device__ __forceinline__ void fold_accesses(const T* x, const ReduceDims& dims, uint64_t first, uint64_t end,
                                              uint32_t step, typename Storage<T>::Number (&folded)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) folded[v] = Fold::template nothing<typename Storage<T>::Number>();
  if (first >= end) return;
  FoldWalk walk(dims, first, step);
  uint64_t i = first;
  for (; i + (kAtOnce - 1) * step < end; i += kAtOnce * step) {
    typename Storage<T>::Number each[kAtOnce][V];
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) load<V>(x + walk.next(), each[a]);
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a)
#pragma unroll
      for (int v = 0; v < V; ++v) folded[v] = Fold::of(folded[v], each[a][v]);
  }
  for (; i < end; i += step) {
    typename Storage<T>::Number each[V];
    load<V>(x + walk.next(), each);
#pragma unroll
    for (int v = 0; v < V; ++v) folded[v] = Fold::of(folded[v], each[v]);
  }
}

template <typename T, typename Number>
__device__ __forceinline__ void keep(const ReduceParams& p, uint64_t kept, Number folded) {
  if (p.parts > 1)
    reinterpret_cast<Number*>(p.partials)[blockIdx.y * p.kept + kept] = folded;
  else
    store_one(reinterpret_cast<T*>(p.y) + kept, folded);
}

// `lanes` threads have neighbouring vectors of kept elements, the others of a block further folded rows.
template <typename T, typename Fold, int V>
__device__ __forceinline__ void columns(const ReduceParams& p) {
  using Number = typename Storage<T>::Number;
  __shared__ Number shared[V][kThreads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (p.lanes - 1), row = thread / p.lanes;
  const int rows = kThreads / p.lanes;
  const uint64_t column = static_cast<uint64_t>(blockIdx.x) * p.lanes + lane;
  const uint64_t begin = blockIdx.y * p.part, end = min(p.folded, begin + p.part);
  const bool live = column < p.kept / V;
  Number folded[V];
  const T* x = reinterpret_cast<const T*>(p.x) + (live ? offset_of(column, p.kept_dims, p.kept_dims.dims) : 0);
  fold_accesses<T, Fold>(x, p.folded_dims, live ? begin + row : end, end, rows, folded);
#pragma unroll
  for (int v = 0; v < V; ++v) shared[v][thread] = folded[v];
  for (int half = rows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int v = 0; v < V; ++v) shared[v][thread] = Fold::of(shared[v][thread], shared[v][thread + half * p.lanes]);
  }
  if (row != 0 || !live) return;
#pragma unroll
  for (int v = 0; v < V; ++v) keep<T>(p, column * V + v, shared[v][thread]);
}

// `lanes` threads for each kept element: neighbours in memory are folded.
template <typename T, typename Fold, int V>
__device__ __forceinline__ void rows(const ReduceParams& p) {
  using Number = typename Storage<T>::Number;
  __shared__ Number shared[kThreads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (p.lanes - 1);
  const uint64_t kept = static_cast<uint64_t>(blockIdx.x) * (kThreads / p.lanes) + thread / p.lanes;
  const uint64_t begin = blockIdx.y * p.part, end = min(p.folded, begin + p.part);
  const bool live = kept < p.kept;
  Number folded[V];
  const T* x = reinterpret_cast<const T*>(p.x) + (live ? offset_of(kept, p.kept_dims, p.kept_dims.dims) : 0);
  fold_accesses<T, Fold>(x, p.folded_dims, live ? begin + lane : end, end, p.lanes, folded);
#pragma unroll
  for (int v = 1; v < V; ++v) folded[0] = Fold::of(folded[0], folded[v]);
  shared[thread] = folded[0];
  for (int half = p.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) shared[thread] = Fold::of(shared[thread], shared[thread + half]);
  }
  if (lane == 0 && live) keep<T>(p, kept, shared[thread]);
}

// A thread for each kept element and each of kReduceRows runs of parts.
template <typename T, typename Fold>
__device__ __forceinline__ void combine(const ReduceParams& p) {
  using Number = typename Storage<T>::Number;
  __shared__ Number shared[kReduceRows][kReduceColumns];
  const uint64_t kept = static_cast<uint64_t>(blockIdx.x) * kReduceColumns + threadIdx.x;
  Number folded = Fold::template nothing<Number>();
  if (kept < p.kept) {
#pragma unroll 8
    for (int part = static_cast<int>(threadIdx.y); part < p.parts; part += kReduceRows)
      folded = Fold::of(folded, reinterpret_cast<const Number*>(p.partials)[part * p.kept + kept]);
  }
  shared[threadIdx.y][threadIdx.x] = folded;
  for (int half = kReduceRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.y) < half)
      shared[threadIdx.y][threadIdx.x] =
          Fold::of(shared[threadIdx.y][threadIdx.x], shared[threadIdx.y + half][threadIdx.x]);
  }
  if (threadIdx.y == 0 && kept < p.kept) store_one(reinterpret_cast<T*>(p.y) + kept, shared[0][threadIdx.x]);
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

// Accesses of sixteen bytes, or of one element.
#define MEGACPP_REDUCE_PASS(name, T, kind, Fold, spread, vector)                          \
  extern "C" __global__ void __launch_bounds__(kThreads)                                  \
      reduce_columns_##kind##_##name##_##spread(const __grid_constant__ ReduceParams p) { \
    columns<T, Fold, vector>(p);                                                          \
  }                                                                                       \
  extern "C" __global__ void __launch_bounds__(kThreads)                                  \
      reduce_rows_##kind##_##name##_##spread(const __grid_constant__ ReduceParams p) {    \
    rows<T, Fold, vector>(p);                                                             \
  }

#define MEGACPP_REDUCE(name, T, kind, Fold)                                    \
  MEGACPP_REDUCE_PASS(name, T, kind, Fold, vector, 16 / sizeof(T))             \
  MEGACPP_REDUCE_PASS(name, T, kind, Fold, single, 1)                          \
  extern "C" __global__ void __launch_bounds__(kReduceColumns* kReduceRows)    \
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
