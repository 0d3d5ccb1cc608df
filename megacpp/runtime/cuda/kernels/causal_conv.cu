// SPDX-License-Identifier: Apache-2.0
// A thread takes V channels and walks some positions with the last few inputs in registers, so that each input is read
// once (but for the few before its first position). Steps count from the end where the convolution is reversed: a tap
// of lag d then reads what stood d steps before, in both directions.
#include "megacpp/runtime/cuda/kernels/causal_conv_params.h"
#include "megacpp/runtime/cuda/kernels/float_access.cuh"

namespace megacpp::runtime::cuda {
namespace {

struct Walk {
  int64_t batch, channel;
  int64_t first, last;  // steps
  bool is_inside;
};

template <int V>
__device__ Walk walk_of(const ConvSizes& sizes, int64_t steps) {
  const int64_t columns = sizes.channels / V, tiles = (sizes.seq + steps - 1) / steps;
  const int64_t index = int64_t{blockIdx.x} * kConvThreads + threadIdx.x;
  const int64_t column = index % columns, tile = index / columns % tiles, batch = index / columns / tiles;
  const int64_t first = tile * steps;
  return {batch, column * V, first, first + steps < sizes.seq ? first + steps : sizes.seq, batch < sizes.batch};
}

__device__ inline int64_t time_of(const ConvSizes& sizes, int64_t step) {
  return sizes.reverse != 0 ? sizes.seq - 1 - step : step;
}

// Whether a step reads the one `lag` before it: both are there and in one document.
__device__ inline bool counts(const ConvSizes& sizes, uint64_t positions, int64_t batch, int64_t step, int64_t lag) {
  if (step < lag) return false;
  if (positions == 0 || lag == 0) return true;
  const int64_t later = time_of(sizes, sizes.reverse != 0 ? step - lag : step);
  return reinterpret_cast<const int32_t*>(positions)[batch * sizes.seq + later] >= lag;
}

__device__ inline int64_t index_of(const ConvSizes& sizes, const Walk& walk, int64_t step) {
  return (walk.batch * sizes.seq + time_of(sizes, step)) * sizes.channels + walk.channel;
}

template <int V>
__device__ void add_product(const float (&a)[V], const float (&b)[V], float (&sum)[V]) {
  for (int v = 0; v < V; ++v) sum[v] = fmaf(a[v], b[v], sum[v]);
}

// The inputs of the last K steps, the newest first.
template <Storage S, int V, int K>
struct Window {
  float values[K][V] = {};

  __device__ void push(const FloatArray& x, int64_t index) {
#pragma unroll
    for (int k = K - 1; k > 0; --k)
      for (int v = 0; v < V; ++v) values[k][v] = values[k - 1][v];
    load<S>(x, index, values[0]);
  }

  // The steps before the first.
  __device__ void fill(const FloatArray& x, const ConvSizes& sizes, const Walk& walk) {
    for (int64_t lag = K - 1; lag > 0; --lag)
      if (walk.first >= lag) push(x, index_of(sizes, walk, walk.first - lag));
  }
};

template <Storage S, int V, int K>
__device__ void conv_by_window(const CausalConvParams& p) {
  const Walk walk = walk_of<V>(p.sizes, kConvSteps);
  if (!walk.is_inside) return;
  float taps[K][V];  // by lag
  for (int v = 0; v < V; ++v)
    for (int k = 0; k < K; ++k) taps[k][v] = load_one(p.w, (walk.channel + v) * K + K - 1 - k);
  Window<S, V, K> window;
  window.fill(p.x, p.sizes, walk);
#pragma unroll 4
  for (int64_t step = walk.first; step < walk.last; ++step) {
    const int64_t index = index_of(p.sizes, walk, step);
    window.push(p.x, index);
    float sum[V] = {};
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (counts(p.sizes, p.positions, walk.batch, step, k)) add_product(taps[k], window.values[k], sum);
    store<S>(sum, p.y, index);
  }
}

// Of any width: every tap reads its input.
template <Storage S, int V>
__device__ void conv_by_taps(const CausalConvParams& p) {
  const Walk walk = walk_of<V>(p.sizes, kConvSteps);
  if (!walk.is_inside) return;
  for (int64_t step = walk.first; step < walk.last; ++step) {
    float sum[V] = {};
    for (int64_t lag = p.sizes.width - 1; lag >= 0; --lag) {
      if (!counts(p.sizes, p.positions, walk.batch, step, lag)) continue;
      float x[V], tap[V];
      load<S>(p.x, index_of(p.sizes, walk, step - lag), x);
      for (int v = 0; v < V; ++v) tap[v] = load_one(p.w, (walk.channel + v + 1) * p.sizes.width - 1 - lag);
      add_product(tap, x, sum);
    }
    store<S>(sum, p.y, index_of(p.sizes, walk, step));
  }
}

template <Storage S, int V>
__device__ void conv(const CausalConvParams& p) {
  switch (p.sizes.width) {
    case 2:
      return conv_by_window<S, V, 2>(p);
    case 3:
      return conv_by_window<S, V, 3>(p);
    case 4:
      return conv_by_window<S, V, 4>(p);
    default:
      return conv_by_taps<S, V>(p);
  }
}

__device__ inline float* partial_of(const CausalConvWeightParams& p, const Walk& walk, int64_t tap) {
  const int64_t tiles = (p.sizes.seq + kConvWeightSteps - 1) / kConvWeightSteps;
  const int64_t part = walk.batch * tiles + walk.first / kConvWeightSteps;
  return reinterpret_cast<float*>(p.partial) + (part * p.sizes.width + tap) * p.sizes.channels + walk.channel;
}

template <Storage S, int V, int K>
__device__ void weight_by_window(const CausalConvWeightParams& p) {
  const Walk walk = walk_of<V>(p.sizes, kConvWeightSteps);
  if (!walk.is_inside) return;
  Window<S, V, K> window;
  window.fill(p.x, p.sizes, walk);
  float sums[K][V] = {};  // by lag
#pragma unroll 4
  for (int64_t step = walk.first; step < walk.last; ++step) {
    const int64_t index = index_of(p.sizes, walk, step);
    float dy[V];
    load<S>(p.dy, index, dy);
    window.push(p.x, index);
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (counts(p.sizes, p.positions, walk.batch, step, k)) add_product(dy, window.values[k], sums[k]);
  }
  for (int k = 0; k < K; ++k) store_f32(sums[k], partial_of(p, walk, K - 1 - k));
}

// Of any width: one pass for each tap.
template <Storage S, int V>
__device__ void weight_by_taps(const CausalConvWeightParams& p) {
  const Walk walk = walk_of<V>(p.sizes, kConvWeightSteps);
  if (!walk.is_inside) return;
  for (int64_t lag = 0; lag < p.sizes.width; ++lag) {
    float sum[V] = {};
    for (int64_t step = walk.first; step < walk.last; ++step) {
      if (!counts(p.sizes, p.positions, walk.batch, step, lag)) continue;
      float x[V], dy[V];
      load<S>(p.dy, index_of(p.sizes, walk, step), dy);
      load<S>(p.x, index_of(p.sizes, walk, step - lag), x);
      add_product(dy, x, sum);
    }
    store_f32(sum, partial_of(p, walk, p.sizes.width - 1 - lag));
  }
}

template <Storage S, int V>
__device__ void weight(const CausalConvWeightParams& p) {
  switch (p.sizes.width) {
    case 2:
      return weight_by_window<S, V, 2>(p);
    case 3:
      return weight_by_window<S, V, 3>(p);
    case 4:
      return weight_by_window<S, V, 4>(p);
    default:
      return weight_by_taps<S, V>(p);
  }
}

}  // namespace

#define MEGACPP_CONV_VARIANT(storage, V)                                                     \
  extern "C" __global__ void __launch_bounds__(kConvThreads)                                 \
      causal_conv_##storage##_##V(const __grid_constant__ CausalConvParams p) {              \
    conv<Storage::storage, V>(p);                                                            \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(kConvThreads)                                 \
      causal_conv_weight_##storage##_##V(const __grid_constant__ CausalConvWeightParams p) { \
    weight<Storage::storage, V>(p);                                                          \
  }
MEGACPP_CONV_VARIANT(f32, 1)
MEGACPP_CONV_VARIANT(f32, 4)
MEGACPP_CONV_VARIANT(bf16, 1)
MEGACPP_CONV_VARIANT(bf16, 8)
MEGACPP_CONV_VARIANT(any, 1)
#undef MEGACPP_CONV_VARIANT

// The parts of dw, in their order.
extern "C" __global__ void causal_conv_weight_sum(const __grid_constant__ CausalConvWeightSumParams p) {
  const int64_t count = p.width * p.channels, index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= count) return;
  const float* partial = reinterpret_cast<const float*>(p.partial) + index;
  float sum = 0.0F;
#pragma unroll 8
  for (int64_t part = 0; part < p.parts; ++part) sum += partial[part * count];
  store_one(sum, p.dw, index % p.channels * p.width + index / p.channels);
}

}  // namespace megacpp::runtime::cuda
