// SPDX-License-Identifier: Apache-2.0
// Linear recurrences in one read and one write. A block walks the whole sequence for 32 lanes of V channels, in tiles
// of kRecurrenceWarps x Steps positions: each warp sums up what its steps do to a state, h -> decay h + added, the
// warps before it say what enters, and then it goes through its steps again, from registers. What the next tile reads
// is on its way meanwhile.
#include "megacpp/machine/cuda/kernels/float_access.cuh"
#include "megacpp/machine/cuda/kernels/recurrence_params.h"

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
  Waiting<S, V> next_a[kSteps], next_x[kSteps];
  const auto is_inside = [&](int64_t step) { return place.is_inside && step < p.sizes.seq; };
  const auto index = [&](int64_t step) {
    return place.at + (p.reverse != 0 ? p.sizes.seq - 1 - step : step) * p.sizes.channels;
  };
  const auto fetch = [&](int64_t first) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      next_a[s].clear();
      next_x[s].clear();
      if (!is_inside(first + s)) continue;
      next_a[s].read(p.a, index(first + s));
      next_x[s].read(p.x, index(first + s));
    }
  };
  float carry[V] = {};
  int tile = 0;
  fetch(own_warp() * kSteps);
  for (int64_t first = own_warp() * kSteps; first - own_warp() * kSteps < p.sizes.seq; first += kWarps * kSteps) {
    float a[kSteps][V], x[kSteps][V], decay[V], added[V], state[V] = {};
    for (int v = 0; v < V; ++v) decay[v] = 1.0F, added[v] = 0.0F;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      for (int v = 0; v < V; ++v) {
        a[s][v] = next_a[s][v];
        x[s][v] = next_x[s][v];
        added[v] = fmaf(a[s][v], added[v], x[s][v]);
        decay[v] *= a[s][v];
      }
    }
    fetch(first + kWarps * kSteps);
    joint.pass(tile++, decay, added, carry, state);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      for (int v = 0; v < V; ++v) state[v] = fmaf(a[s][v], state[v], x[s][v]);
      if (is_inside(first + s)) store<S>(state, p.h, index(first + s));
    }
  }
}

__device__ inline bool is_reset(const Resets& resets, int64_t batch, int64_t seq, int64_t t) {
  if (resets.positions != 0) return reinterpret_cast<const int32_t*>(resets.positions)[batch * seq + t] == 0;
  return t == 0 && (resets.continues.address == 0 || load_one(resets.continues, batch) == 0.0F);
}

__device__ inline float logistic(float x) { return __fdividef(1.0F, 1.0F + expf(-x)); }

// Of two numbers with one division. Below -40 they count as -40: their product stays finite.
struct Logistics {
  float first, second;

  __device__ Logistics(float x, float y) {
    const float a = 1.0F + __expf(fminf(-x, 40.0F)), b = 1.0F + __expf(fminf(-y, 40.0F));
    const float both = __fdividef(1.0F, a * b);
    first = both * b;
    second = both * a;
  }
};

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

// The gates of one position.
struct Gates {
  float r, input;   // logistic
  float a;          // exp(-w)
  float remainder;  // 1 - a^2

  __device__ Gates(float recurrence_gate, float input_gate, float scale) {
    const Logistics both(recurrence_gate, input_gate);
    r = both.first;
    input = both.second;
    const float w = r * scale;
    a = __expf(-w);
    remainder = one_minus_square(w, a);
  }
  // 1 / sqrt(remainder), and no more than 1e15.
  __device__ float inverse_root() const { return rsqrtf(fmaxf(remainder, 1e-30F)); }
};

template <Storage S, int V>
__device__ void rg_lru(const RgLruParams& p) {
  constexpr int kSteps = 8;
  __shared__ Joint<V> joint;
  const Place<V> place = place_of<V>(p.sizes);
  const auto is_inside = [&](int64_t step) { return place.is_inside && step < p.sizes.seq; };
  const auto index = [&](int64_t step) { return place.at + step * p.sizes.channels; };
  Waiting<S, V> x[kSteps], input_gate[kSteps], recurrence_gate[kSteps];
  uint32_t begins = 0;  // bits, by step
  const auto fetch = [&](int64_t first) {
    begins = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      x[s].clear();
      input_gate[s].clear();
      recurrence_gate[s].clear();
      if (!is_inside(first + s)) continue;
      x[s].read(p.x, index(first + s));
      input_gate[s].read(p.input_gate, index(first + s));
      recurrence_gate[s].read(p.recurrence_gate, index(first + s));
      if (is_reset(p.resets, place.batch, p.sizes.seq, first + s)) begins |= 1U << s;
    }
  };
  float scale[V], carry[V] = {};
  load_scale(p.p, place, scale);
  int tile = 0;
  fetch(own_warp() * kSteps);
  for (int64_t first = own_warp() * kSteps; first - own_warp() * kSteps < p.sizes.seq; first += kWarps * kSteps) {
    float a[kSteps][V], driven[kSteps][V], decay[V], added[V], state[V] = {};
    for (int v = 0; v < V; ++v) decay[v] = 1.0F, added[v] = 0.0F;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const bool is_first = (begins >> s & 1U) != 0;
      for (int v = 0; v < V; ++v) {
        const Gates gates(recurrence_gate[s][v], input_gate[s][v], scale[v]);
        const float m = is_first ? 1.0F : gates.remainder * gates.inverse_root();
        a[s][v] = is_first ? 0.0F : gates.a;
        driven[s][v] = m * gates.input * x[s][v];
        added[v] = fmaf(a[s][v], added[v], driven[s][v]);
        decay[v] *= a[s][v];
      }
    }
    fetch(first + kWarps * kSteps);
    joint.pass(tile++, decay, added, carry, state);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      for (int v = 0; v < V; ++v) state[v] = fmaf(a[s][v], state[v], driven[s][v]);
      if (is_inside(first + s)) store<S>(state, p.h, index(first + s));
    }
  }
}

// One position of the gradient: everything that is read of it.
template <Storage S, int V>
struct GradStep {
  Waiting<S, V> x, input_gate, recurrence_gate, previous, dh;

  __device__ void clear() {
    x.clear();
    input_gate.clear();
    recurrence_gate.clear();
    previous.clear();
    dh.clear();
  }
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
  const auto time = [&](int64_t step) { return f.sizes.seq - 1 - step; };
  const auto is_inside = [&](int64_t step) { return place.is_inside && time(step) >= 0; };
  const auto index = [&](int64_t step) { return place.at + time(step) * f.sizes.channels; };
  GradStep<S, V> next[kSteps];
  uint32_t next_begins = 0;  // bits, by step
  const auto fetch = [&](int64_t first) {
    next_begins = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int64_t step = first + s;
      next[s].clear();
      if (!is_inside(step)) continue;
      next[s].x.read(f.x, index(step));
      next[s].input_gate.read(f.input_gate, index(step));
      next[s].recurrence_gate.read(f.recurrence_gate, index(step));
      next[s].dh.read(p.dh, index(step));
      if (time(step) > 0) next[s].previous.read(f.h, index(step) - f.sizes.channels);
      if (is_reset(f.resets, place.batch, f.sizes.seq, time(step))) next_begins |= 1U << s;
    }
  };
  float scale[V], carry[V] = {}, sum[V] = {};
  load_scale(f.p, place, scale);
  int tile = 0;
  fetch(own_warp() * kSteps);
  for (int64_t first = own_warp() * kSteps; first - own_warp() * kSteps < f.sizes.seq; first += kWarps * kSteps) {
    GradStep<S, V> steps[kSteps];
    float r[kSteps][V], input[kSteps][V], a[kSteps][V], inverse_root[kSteps][V], remainder[kSteps][V];
    const uint32_t begins = next_begins;
    float decay[V], added[V], total[V] = {};
    for (int v = 0; v < V; ++v) decay[v] = 1.0F, added[v] = 0.0F;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      steps[s] = next[s];
      for (int v = 0; v < V; ++v) {
        const Gates gates(steps[s].recurrence_gate[v], steps[s].input_gate[v], scale[v]);
        r[s][v] = gates.r;
        input[s][v] = gates.input;
        a[s][v] = gates.a;
        remainder[s][v] = gates.remainder;
        inverse_root[s][v] = gates.inverse_root();
        const float passed = (begins >> s & 1U) != 0 ? 0.0F : gates.a;
        added[v] = passed * (added[v] + steps[s].dh[v]);
        decay[v] *= passed;
      }
    }
    fetch(first + kWarps * kSteps);
    joint.pass(tile++, decay, added, carry, total);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const bool is_first = (begins >> s & 1U) != 0;
      float dx[V], dinput_gate[V], drecurrence_gate[V];
      for (int v = 0; v < V; ++v) {
        const float x = steps[s].x[v], all = steps[s].dh[v] + total[v];
        const float driven = is_first ? all : all * remainder[s][v] * inverse_root[s][v];
        const float kept = is_first ? 0.0F : all * a[s][v];
        dx[v] = driven * input[s][v];
        dinput_gate[v] = driven * x * logistic_slope(input[s][v]);
        // The slope of the square root, 1 / sqrt(4 remainder), is capped at 1000.
        const float through_m = 2 * a[s][v] * input[s][v] * x * fminf(0.5F * inverse_root[s][v], 1000.0F);
        const float dw = kept * (through_m - steps[s].previous[v]);
        sum[v] = fmaf(dw, r[s][v], sum[v]);
        drecurrence_gate[v] = dw * scale[v] * logistic_slope(r[s][v]);
        total[v] = kept;
      }
      if (!is_inside(first + s)) continue;
      store<S>(dx, p.dx, index(first + s));
      store<S>(dinput_gate, p.dinput_gate, index(first + s));
      store<S>(drecurrence_gate, p.drecurrence_gate, index(first + s));
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
  extern "C" __global__ void __launch_bounds__(kWarps* kLanes, 2)                           \
      linear_recurrence_##storage##_##V(const __grid_constant__ LinearRecurrenceParams p) { \
    linear_recurrence<Storage::storage, V>(p);                                              \
  }                                                                                         \
  extern "C" __global__ void __launch_bounds__(kWarps* kLanes, 2)                           \
      rg_lru_##storage##_##V(const __grid_constant__ RgLruParams p) {                       \
    rg_lru<Storage::storage, V>(p);                                                         \
  }                                                                                         \
  extern "C" __global__ void __launch_bounds__(kWarps* kLanes, 2)                           \
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
