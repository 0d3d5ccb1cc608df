// SPDX-License-Identifier: Apache-2.0
// A thread takes V channels and walks some positions with the last few inputs in registers, so that each input is read
// once (but for the few before its first position). The next few are on their way while some are worked on. Steps count
// from the end where the convolution is reversed: a tap of lag d then reads what stood d steps before, in both
// directions.
#include "megacpp/machine/cuda/kernels/causal_conv_params.h"
#include "megacpp/machine/cuda/kernels/float_access.cuh"

namespace megacpp::runtime::cuda {
namespace {

struct Walk {
  int64_t batch, channel;
  int64_t first, last;  // steps
  int64_t at, stride;   // elements: step 0, and from a step to the next
  bool is_inside;
};

template <int V>
__device__ Walk walk_of(const ConvSizes& sizes) {
  const int64_t steps = sizes.steps, columns = sizes.channels / V, tiles = (sizes.seq + steps - 1) / steps;
  const int64_t index = int64_t{blockIdx.x} * kConvThreads + threadIdx.x;
  const int64_t column = index % columns, tile = index / columns % tiles, batch = index / columns / tiles;
  const int64_t first = tile * steps, zero = sizes.reverse != 0 ? sizes.seq - 1 : 0;
  return {.batch = batch,
          .channel = column * V,
          .first = first,
          .last = first + steps < sizes.seq ? first + steps : sizes.seq,
          .at = (batch * sizes.seq + zero) * sizes.channels + column * V,
          .stride = sizes.reverse != 0 ? -sizes.channels : sizes.channels,
          .is_inside = batch < sizes.batch};
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

__device__ inline int64_t index_of(const Walk& walk, int64_t step) { return walk.at + step * walk.stride; }

template <int V, typename A, typename B>
__device__ void add_product(const A& a, const B& b, float (&sum)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = fmaf(a[v], b[v], sum[v]);
}

// The inputs of kAtOnce steps and of the K - 1 before them, with their positions. Where a step is of no sequence its
// inputs are 0.
template <Storage S, int V, int K, int kAtOnce>
struct Window {
  const ConvSizes& sizes;
  const Walk& walk;
  const int32_t* positions;  // of the batch, or null
  Waiting<S, V> values[K - 1 + kAtOnce];
  int32_t limits[K - 1 + kAtOnce];  // of lags, by position
  Waiting<S, V> next[kAtOnce];
  int32_t next_limits[kAtOnce];

  __device__ Window(const FloatArray& x, uint64_t all_positions, const ConvSizes& own_sizes, const Walk& own_walk)
      : sizes(own_sizes),
        walk(own_walk),
        positions(all_positions == 0 ? nullptr
                                     : reinterpret_cast<const int32_t*>(all_positions) + walk.batch * sizes.seq) {
#pragma unroll
    for (int k = 0; k < K - 1; ++k) {
      const int64_t step = walk.first - (K - 1) + k;
      values[k].clear();
      if (step >= 0) values[k].read(x, index_of(walk, step));
      limits[k] = limit_at(step);
    }
    fetch(x, walk.first);
  }

  __device__ int32_t limit_at(int64_t step) const {
    return positions == nullptr || step < 0 || step >= sizes.seq ? K : positions[time_of(sizes, step)];
  }

  __device__ void fetch(const FloatArray& x, int64_t first) {
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      next[s].clear();
      if (first + s < walk.last) next[s].read(x, index_of(walk, first + s));
      next_limits[s] = limit_at(first + s);
    }
  }

  // To the steps that are on their way, and sends for those behind them, from `following`.
  __device__ void advance(const FloatArray& x, int64_t following) {
    if (following > walk.first + kAtOnce) {
#pragma unroll
      for (int k = 0; k < K - 1; ++k) {
        values[k] = values[k + kAtOnce];
        limits[k] = limits[k + kAtOnce];
      }
    }
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      values[K - 1 + s] = next[s];
      limits[K - 1 + s] = next_limits[s];
    }
    fetch(x, following);
  }

  // Whether the s-th of the steps reads the one `lag` before it: they are in one document by the later one's position.
  __device__ bool counts(int s, int lag) const {
    return (sizes.reverse != 0 ? limits[K - 1 + s - lag] : limits[K - 1 + s]) >= lag;
  }
  __device__ const Waiting<S, V>& value(int s, int lag) const { return values[K - 1 + s - lag]; }
};

// By lag.
template <int V, int K>
__device__ void load_taps(const FloatArray& w, const Walk& walk, float (&taps)[K][V]) {
  float flat[K][V];  // [channels, width] as they stand
#pragma unroll
  for (int k = 0; k < K; ++k) load<Storage::any>(w, walk.channel * K + k * V, flat[k]);
#pragma unroll
  for (int v = 0; v < V; ++v)
#pragma unroll
    for (int k = 0; k < K; ++k) taps[k][v] = flat[(v * K + K - 1 - k) / V][(v * K + K - 1 - k) % V];
}

template <Storage S, int V, int K>
__device__ void conv_by_window(const CausalConvParams& p) {
  constexpr int kAtOnce = 4;
  const Walk walk = walk_of<V>(p.sizes);
  if (!walk.is_inside) return;
  float taps[K][V];
  load_taps(p.w, walk, taps);
  Window<S, V, K, kAtOnce> window(p.x, p.positions, p.sizes, walk);
  for (int64_t first = walk.first; first < walk.last; first += kAtOnce) {
    window.advance(p.x, first + kAtOnce);
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      float sum[V] = {};
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (window.counts(s, k)) add_product(taps[k], window.value(s, k), sum);
      if (first + s < walk.last) store<S>(sum, p.y, index_of(walk, first + s));
    }
  }
}

// Of any width: every tap reads its input.
template <Storage S, int V>
__device__ void conv_by_taps(const CausalConvParams& p) {
  const Walk walk = walk_of<V>(p.sizes);
  if (!walk.is_inside) return;
  for (int64_t step = walk.first; step < walk.last; ++step) {
    float sum[V] = {};
    for (int64_t lag = p.sizes.width - 1; lag >= 0; --lag) {
      if (!counts(p.sizes, p.positions, walk.batch, step, lag)) continue;
      float x[V], tap[V];
      load<S>(p.x, index_of(walk, step - lag), x);
      for (int v = 0; v < V; ++v) tap[v] = load_one(p.w, (walk.channel + v + 1) * p.sizes.width - 1 - lag);
      add_product(tap, x, sum);
    }
    store<S>(sum, p.y, index_of(walk, step));
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

// Where a walk leaves its sums, `taps` of them for each channel.
__device__ inline float* part_of(uint64_t partial, const ConvSizes& sizes, const Walk& walk, int64_t taps) {
  const int64_t tiles = (sizes.seq + sizes.steps - 1) / sizes.steps;
  const int64_t part = walk.batch * tiles + walk.first / sizes.steps;
  return reinterpret_cast<float*>(partial) + part * taps * sizes.channels + walk.channel;
}

__device__ inline float* partial_of(const CausalConvWeightParams& p, const Walk& walk, int64_t tap) {
  return part_of(p.partial, p.sizes, walk, p.sizes.width) + tap * p.sizes.channels;
}

template <Storage S, int V, int K>
__device__ void weight_by_window(const CausalConvWeightParams& p) {
  constexpr int kAtOnce = 2;
  const Walk walk = walk_of<V>(p.sizes);
  if (!walk.is_inside) return;
  Window<S, V, K, kAtOnce> window(p.x, p.positions, p.sizes, walk);
  Waiting<S, V> next[kAtOnce];
  const auto fetch = [&](int64_t first) {
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      next[s].clear();  // behind the last step, where nothing is added
      if (first + s < walk.last) next[s].read(p.dy, index_of(walk, first + s));
    }
  };
  fetch(walk.first);
  float sums[K][V] = {};  // by lag
  for (int64_t first = walk.first; first < walk.last; first += kAtOnce) {
    Waiting<S, V> dy[kAtOnce];
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) dy[s] = next[s];
    window.advance(p.x, first + kAtOnce);
    fetch(first + kAtOnce);
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s)
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (window.counts(s, k)) add_product(dy[s], window.value(s, k), sums[k]);
  }
  for (int k = 0; k < K; ++k) store_f32(sums[k], partial_of(p, walk, K - 1 - k));
}

// Walks against the convolution, with the last few dy in registers: at each step these are all that its x was
// multiplied with.
template <Storage S, int V, int K>
__device__ void grad_by_window(const CausalConvGradParams& p) {
  constexpr int kAtOnce = S == Storage::bf16 ? 4 : 2;
  const Walk walk = walk_of<V>(p.sizes);
  if (!walk.is_inside) return;
  float taps[K][V], sums[K][V] = {}, bias[V] = {};  // by lag
  load_taps(p.w, walk, taps);
  Window<S, V, K, kAtOnce> window(p.dy, p.positions, p.sizes, walk);
  Waiting<S, V> next[kAtOnce];
  const auto fetch = [&](int64_t first) {
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      next[s].clear();  // behind the last step, where nothing is added
      if (first + s < walk.last) next[s].read(p.x, index_of(walk, first + s));
    }
  };
  fetch(walk.first);
  for (int64_t first = walk.first; first < walk.last; first += kAtOnce) {
    Waiting<S, V> x[kAtOnce];
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) x[s] = next[s];
    window.advance(p.dy, first + kAtOnce);
    fetch(first + kAtOnce);
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      float dx[V] = {};
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (window.counts(s, k)) {
          add_product(taps[k], window.value(s, k), dx);
          add_product(x[s], window.value(s, k), sums[k]);
        }
#pragma unroll
      for (int v = 0; v < V; ++v) bias[v] += window.value(s, 0)[v];
      if (first + s < walk.last) store<S>(dx, p.dx, index_of(walk, first + s));
    }
  }
  float* const partial = part_of(p.partial, p.sizes, walk, K + 1);
  for (int k = 0; k < K; ++k) store_f32(sums[k], partial + (K - 1 - k) * p.sizes.channels);
  store_f32(bias, partial + K * p.sizes.channels);
}

template <Storage S, int V>
__device__ void grad(const CausalConvGradParams& p) {
  switch (p.sizes.width) {
    case 2:
      return grad_by_window<S, V, 2>(p);
    case 3:
      return grad_by_window<S, V, 3>(p);
    default:
      return grad_by_window<S, V, 4>(p);
  }
}

// Of any width: one pass for each tap.
template <Storage S, int V>
__device__ void weight_by_taps(const CausalConvWeightParams& p) {
  const Walk walk = walk_of<V>(p.sizes);
  if (!walk.is_inside) return;
  for (int64_t lag = 0; lag < p.sizes.width; ++lag) {
    float sum[V] = {};
    for (int64_t step = walk.first; step < walk.last; ++step) {
      if (!counts(p.sizes, p.positions, walk.batch, step, lag)) continue;
      float x[V], dy[V];
      load<S>(p.dy, index_of(walk, step), dy);
      load<S>(p.x, index_of(walk, step - lag), x);
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
  extern "C" __global__ void __launch_bounds__(kConvThreads, 4)                              \
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

#define MEGACPP_CONV_GRAD_VARIANT(storage, V)                                            \
  extern "C" __global__ void __launch_bounds__(kConvThreads, 4)                          \
      causal_conv_grad_##storage##_##V(const __grid_constant__ CausalConvGradParams p) { \
    grad<Storage::storage, V>(p);                                                        \
  }
MEGACPP_CONV_GRAD_VARIANT(f32, 1)
MEGACPP_CONV_GRAD_VARIANT(f32, 4)
MEGACPP_CONV_GRAD_VARIANT(bf16, 1)
MEGACPP_CONV_GRAD_VARIANT(bf16, 4)
#undef MEGACPP_CONV_GRAD_VARIANT

// The parts of dw, and of the bias where it has any: kConvSumRows runs of them in their order, and then these.
extern "C" __global__ void __launch_bounds__(kConvSumColumns* kConvSumRows)
    causal_conv_weight_sum(const __grid_constant__ CausalConvWeightSumParams p) {
  __shared__ float sums[kConvSumRows][kConvSumColumns];
  const int64_t taps = p.db.address == 0 ? p.width : p.width + 1;
  const int64_t count = taps * p.channels, index = int64_t{blockIdx.x} * kConvSumColumns + threadIdx.x;
  float sum = 0.0F;
  if (index < count) {
    const float* partial = reinterpret_cast<const float*>(p.partial) + index;
#pragma unroll 8
    for (int64_t part = threadIdx.y; part < p.parts; part += kConvSumRows) sum += partial[part * count];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || index >= count) return;
  for (int row = 1; row < kConvSumRows; ++row) sum += sums[row][threadIdx.x];
  const int64_t channel = index % p.channels, tap = index / p.channels;
  if (tap < p.width)
    store_one(sum, p.dw, channel * p.width + tap);
  else
    store_one(sum, p.db, channel);
}

}  // namespace megacpp::runtime::cuda
