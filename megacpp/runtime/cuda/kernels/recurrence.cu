// SPDX-License-Identifier: Apache-2.0
// Linear recurrences in one read and one write. A block walks the whole sequence for 32 lanes of V channels, in tiles
// of kRecurrenceWarps x Steps positions: each warp sums up what its steps do to a state, h -> decay h + added, the
// warps before it say what enters, and then it goes through its steps again, from registers.
#include "megacpp/runtime/cuda/kernels/float_access.cuh"
#include "megacpp/runtime/cuda/kernels/recurrence_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kWarps = kRecurrenceWarps, kLanes = 32;
constexpr float kDecayScale = 8.0F;

// The channels of this thread, and where they stand at position 0.
template <int V>
struct Place {
  int64_t batch, channel, at;
  bool is_inside;
};

template <int V>
__device__ Place<V> place_of(const RecurrenceSizes& sizes) {
  const int64_t blocks = (sizes.channels + kLanes * V - 1) / (kLanes * V);
  const int64_t batch = blockIdx.x / blocks, channel = (blockIdx.x % blocks * kLanes + threadIdx.x % kLanes) * V;
  return {batch, channel, batch * sizes.seq * sizes.channels + channel, channel < sizes.channels};
}

__device__ inline int own_warp() { return threadIdx.x / kLanes; }

// Turns `carry`, the state before the tile, into the one behind it, and returns what enters this warp's steps.
template <int V>
struct Joint {
  float2 segments[2][kWarps][kLanes][V];  // decay, added; two buffers, so that one barrier a tile is enough

  __device__ void pass(int tile, const float (&decay)[V], const float (&added)[V], float (&carry)[V],
                       float (&entering)[V]) {
    auto& own = segments[tile % 2];
    const int lane = threadIdx.x % kLanes, warp = own_warp();
    for (int v = 0; v < V; ++v) own[warp][lane][v] = make_float2(decay[v], added[v]);
    __syncthreads();
    for (int v = 0; v < V; ++v) {
      for (int w = 0; w < kWarps; ++w) {
        if (w == warp) entering[v] = carry[v];
        const float2 segment = own[w][lane][v];
        carry[v] = fmaf(segment.x, carry[v], segment.y);
      }
    }
  }
};

template <Storage S, int V>
__device__ void linear_recurrence(const LinearRecurrenceParams& p) {
  constexpr int kSteps = 8;
  __shared__ Joint<V> joint;
  const Place<V> place = place_of<V>(p.sizes);
  float carry[V] = {};
  int tile = 0;
  for (int64_t first = own_warp() * kSteps; first - own_warp() * kSteps < p.sizes.seq; first += kWarps * kSteps) {
    float a[kSteps][V], x[kSteps][V], decay[V], added[V], state[V] = {};
    const auto index = [&](int s) {
      return place.at + (p.reverse != 0 ? p.sizes.seq - 1 - first - s : first + s) * p.sizes.channels;
    };
    const auto is_inside = [&](int s) { return place.is_inside && first + s < p.sizes.seq; };
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      for (int v = 0; v < V; ++v) a[s][v] = 1.0F, x[s][v] = 0.0F;
      if (!is_inside(s)) continue;
      load<S>(p.a, index(s), a[s]);
      load<S>(p.x, index(s), x[s]);
    }
    for (int v = 0; v < V; ++v) {
      decay[v] = 1.0F, added[v] = 0.0F;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        added[v] = fmaf(a[s][v], added[v], x[s][v]);
        decay[v] *= a[s][v];
      }
    }
    joint.pass(tile++, decay, added, carry, state);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      for (int v = 0; v < V; ++v) state[v] = fmaf(a[s][v], state[v], x[s][v]);
      if (is_inside(s)) store<S>(state, p.h, index(s));
    }
  }
}

__device__ inline bool is_reset(const Resets& resets, int64_t batch, int64_t seq, int64_t t) {
  if (resets.positions != 0) return reinterpret_cast<const int32_t*>(resets.positions)[batch * seq + t] == 0;
  return t == 0 && (resets.continues.address == 0 || load_one(resets.continues, batch) == 0.0F);
}

__device__ inline float logistic(float x) { return __fdividef(1.0F, 1.0F + expf(-x)); }

__device__ inline float scale_of(float p) { return kDecayScale * (fmaxf(p, 0.0F) + log1pf(expf(-fabsf(p)))); }

// 1 - a^2 for a = exp(-w): by its series in 2 w where the difference would cancel.
__device__ inline float one_minus_square(float w, float a) {
  const float u = 2 * w;
  float series = fmaf(u, -1.0F / 7, 1.0F);
  series = fmaf(-u * (1.0F / 6), series, 1.0F);
  series = fmaf(-u * (1.0F / 5), series, 1.0F);
  series = fmaf(-u * (1.0F / 4), series, 1.0F);
  series = fmaf(-u * (1.0F / 3), series, 1.0F);
  series = fmaf(-u * (1.0F / 2), series, 1.0F);
  return u < 0.3F ? u * series : fmaf(-a, a, 1.0F);
}

template <int V>
__device__ void load_scale(const FloatArray& p, const Place<V>& place, float (&scale)[V]) {
  for (int v = 0; v < V; ++v) scale[v] = place.is_inside ? scale_of(load_one(p, place.channel + v)) : 0.0F;
}

template <Storage S, int V>
__device__ void rg_lru(const RgLruParams& p) {
  constexpr int kSteps = 8;
  __shared__ Joint<V> joint;
  const Place<V> place = place_of<V>(p.sizes);
  float scale[V], carry[V] = {};
  load_scale(p.p, place, scale);
  int tile = 0;
  for (int64_t first = own_warp() * kSteps; first - own_warp() * kSteps < p.sizes.seq; first += kWarps * kSteps) {
    float a[kSteps][V], driven[kSteps][V], decay[V], added[V], state[V] = {};
    const auto is_inside = [&](int s) { return place.is_inside && first + s < p.sizes.seq; };
    const auto index = [&](int s) { return place.at + (first + s) * p.sizes.channels; };
    float x[kSteps][V], input_gate[kSteps][V], recurrence_gate[kSteps][V];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      for (int v = 0; v < V; ++v) x[s][v] = 0.0F, input_gate[s][v] = 0.0F, recurrence_gate[s][v] = 0.0F;
      if (!is_inside(s)) continue;
      load<S>(p.x, index(s), x[s]);
      load<S>(p.input_gate, index(s), input_gate[s]);
      load<S>(p.recurrence_gate, index(s), recurrence_gate[s]);
    }
    for (int v = 0; v < V; ++v) decay[v] = 1.0F, added[v] = 0.0F;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const bool begins = is_inside(s) && is_reset(p.resets, place.batch, p.sizes.seq, first + s);
      for (int v = 0; v < V; ++v) {
        const float w = logistic(recurrence_gate[s][v]) * scale[v], kept = expf(-w);
        const float m = begins ? 1.0F : sqrtf(one_minus_square(w, kept));
        a[s][v] = begins ? 0.0F : kept;
        driven[s][v] = m * logistic(input_gate[s][v]) * x[s][v];
        added[v] = fmaf(a[s][v], added[v], driven[s][v]);
        decay[v] *= a[s][v];
      }
    }
    joint.pass(tile++, decay, added, carry, state);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      for (int v = 0; v < V; ++v) state[v] = fmaf(a[s][v], state[v], driven[s][v]);
      if (is_inside(s)) store<S>(state, p.h, index(s));
    }
  }
}

// One position of the gradient: everything that is known before the cotangent from later positions arrives.
template <int V>
struct GradStep {
  float x[V], input_gate[V], recurrence_gate[V], previous[V], dh[V];
};

// v (1 - v): the slope of the logistic function from its value.
__device__ inline float logistic_slope(float v) { return fmaf(-v, v, v); }

// From the last position to the first. The carried value is the cotangent that reaches h of a position from later ones:
// carry -> a (dh + carry).
template <Storage S, int V>
__device__ void rg_lru_grad(const RgLruGradParams& p) {
  constexpr int kSteps = 4;
  __shared__ Joint<V> joint;
  const RgLruParams& f = p.forward;
  const Place<V> place = place_of<V>(f.sizes);
  float scale[V], carry[V] = {}, sum[V] = {};
  load_scale(f.p, place, scale);
  int tile = 0;
  for (int64_t first = own_warp() * kSteps; first - own_warp() * kSteps < f.sizes.seq; first += kWarps * kSteps) {
    GradStep<V> steps[kSteps];
    bool begins[kSteps];
    float decay[V], added[V], total[V] = {};
    const auto time = [&](int s) { return f.sizes.seq - 1 - first - s; };
    const auto is_inside = [&](int s) { return place.is_inside && time(s) >= 0; };
    const auto index = [&](int s) { return place.at + time(s) * f.sizes.channels; };
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      steps[s] = {};
      begins[s] = false;
      if (!is_inside(s)) continue;
      load<S>(f.x, index(s), steps[s].x);
      load<S>(f.input_gate, index(s), steps[s].input_gate);
      load<S>(f.recurrence_gate, index(s), steps[s].recurrence_gate);
      load<S>(p.dh, index(s), steps[s].dh);
      if (time(s) > 0) load<S>(f.h, index(s) - f.sizes.channels, steps[s].previous);
      begins[s] = is_reset(f.resets, place.batch, f.sizes.seq, time(s));
    }
    for (int v = 0; v < V; ++v) {
      decay[v] = 1.0F, added[v] = 0.0F;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const float a = begins[s] ? 0.0F : expf(-logistic(steps[s].recurrence_gate[v]) * scale[v]);
        added[v] = a * (added[v] + steps[s].dh[v]);
        decay[v] *= a;
      }
    }
    joint.pass(tile++, decay, added, carry, total);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      float dx[V], dinput_gate[V], drecurrence_gate[V];
      for (int v = 0; v < V; ++v) {
        const float x = steps[s].x[v], input = logistic(steps[s].input_gate[v]);
        const float r = logistic(steps[s].recurrence_gate[v]), w = r * scale[v], a = expf(-w);
        const float remainder = one_minus_square(w, a);
        const float all = steps[s].dh[v] + total[v], driven = begins[s] ? all : all * sqrtf(remainder);
        const float kept = begins[s] ? 0.0F : all * a;
        dx[v] = driven * input;
        dinput_gate[v] = driven * x * logistic_slope(input);
        // The slope of the square root, 1 / sqrt(4 remainder), is capped at 1000.
        const float through_m = 2 * a * input * x * rsqrtf(fmaxf(4 * remainder, 1e-6F));
        const float dw = kept * (through_m - steps[s].previous[v]);
        sum[v] = fmaf(dw, r, sum[v]);
        drecurrence_gate[v] = dw * scale[v] * logistic_slope(r);
        total[v] = kept;
      }
      if (!is_inside(s)) continue;
      store<S>(dx, p.dx, index(s));
      store<S>(dinput_gate, p.dinput_gate, index(s));
      store<S>(drecurrence_gate, p.drecurrence_gate, index(s));
    }
  }
  __shared__ float sums[kWarps][kLanes][V];
  for (int v = 0; v < V; ++v) sums[own_warp()][threadIdx.x % kLanes][v] = sum[v];
  __syncthreads();
  if (own_warp() != 0 || !place.is_inside) return;
  float* partial = reinterpret_cast<float*>(p.partial_dp) + place.batch * f.sizes.channels + place.channel;
  for (int v = 0; v < V; ++v) {
    float all = 0.0F;
    for (int w = 0; w < kWarps; ++w) all += sums[w][threadIdx.x][v];
    partial[v] = all;
  }
}

}  // namespace

#define MEGACPP_RECURRENCE_VARIANT(storage, V)                                              \
  extern "C" __global__ void __launch_bounds__(kWarps* kLanes)                              \
      linear_recurrence_##storage##_##V(const __grid_constant__ LinearRecurrenceParams p) { \
    linear_recurrence<Storage::storage, V>(p);                                              \
  }                                                                                         \
  extern "C" __global__ void __launch_bounds__(kWarps* kLanes)                              \
      rg_lru_##storage##_##V(const __grid_constant__ RgLruParams p) {                       \
    rg_lru<Storage::storage, V>(p);                                                         \
  }                                                                                         \
  extern "C" __global__ void __launch_bounds__(kWarps* kLanes)                              \
      rg_lru_grad_##storage##_##V(const __grid_constant__ RgLruGradParams p) {              \
    rg_lru_grad<Storage::storage, V>(p);                                                    \
  }
MEGACPP_RECURRENCE_VARIANT(f32, 1)
MEGACPP_RECURRENCE_VARIANT(f32, 2)
MEGACPP_RECURRENCE_VARIANT(bf16, 1)
MEGACPP_RECURRENCE_VARIANT(bf16, 2)
MEGACPP_RECURRENCE_VARIANT(any, 1)
MEGACPP_RECURRENCE_VARIANT(any, 2)
#undef MEGACPP_RECURRENCE_VARIANT

// dp [channels] from the sequences' parts, in their order.
extern "C" __global__ void rg_lru_rate(const __grid_constant__ RgLruRateParams p) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  float sum = 0.0F;
  for (int64_t b = 0; b < p.batch; ++b) sum += reinterpret_cast<const float*>(p.partial_dp)[b * p.channels + channel];
  store_one(sum * kDecayScale * logistic(load_one(p.p, channel)), p.dp, channel);
}

}  // namespace megacpp::runtime::cuda
