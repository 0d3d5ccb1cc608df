// SPDX-License-Identifier: Apache-2.0
// ssd as it is defined, position by position in f32: for operands of any dtype and for sizes that ssd_mma.cu does not
// take. A warp holds one row of a head's state, [state] over its lanes, R elements in each.
#include "megacpp/machine/cuda/kernels/float_access.cuh"
#include "megacpp/machine/cuda/kernels/ssd_params.h"

namespace megacpp::runtime::cuda {
namespace {

// A head of a sequence.
struct Head {
  int64_t batch, head, group;
};

__device__ Head head_of(const SsdSizes& sizes, int64_t index) {
  const int64_t head = index % sizes.heads;
  return {index / sizes.heads, head, head / (sizes.heads / sizes.groups)};
}

// What one position of a head is.
template <int R>
struct Step {
  int64_t row;  // of dt; of x in units of head_dim
  float dt, decay;
  float b[R], c[R];
};

__device__ bool begins_document(const SsdParams& p, int64_t position) {
  return p.positions != 0 && reinterpret_cast<const int32_t*>(p.positions)[position] == 0;
}

template <int R>
__device__ Step<R> step_at(const SsdParams& p, const Head& head, int64_t t) {
  const int64_t position = head.batch * p.sizes.seq + t;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Step<R> step;
  step.row = position * p.sizes.heads + head.head;
  step.dt = load_one(p.dt, step.row);
  step.decay = begins_document(p, position) ? 0.0F : expf(step.dt * load_one(p.a, head.head));
  for (int r = 0; r < R; ++r) {
    const int64_t n = r * 32 + lane, at = (position * p.sizes.groups + head.group) * p.sizes.state + n;
    step.b[r] = n < p.sizes.state ? load_one(p.b, at) : 0.0F;
    step.c[r] = n < p.sizes.state ? load_one(p.c, at) : 0.0F;
  }
  return step;
}

template <int R>
__device__ void advance(const Step<R>& step, float x, float (&state)[R]) {
  for (int r = 0; r < R; ++r) state[r] = fmaf(step.decay, state[r], step.dt * x * step.b[r]);
}

template <int R>
__device__ float dot(const float (&a)[R], const float (&b)[R]) {
  float sum = 0.0F;
  for (int r = 0; r < R; ++r) sum = fmaf(a[r], b[r], sum);
  return warp_sum(sum);
}

template <int R>
__device__ void load_row(const float* from, int64_t state, float (&to)[R]) {
  for (int r = 0; r < R; ++r) {
    const int64_t n = r * 32 + threadIdx.x % 32;
    to[r] = n < state ? from[n] : 0.0F;
  }
}

template <int R>
__device__ void store_row(const float (&from)[R], int64_t state, float* to) {
  for (int r = 0; r < R; ++r) {
    const int64_t n = r * 32 + threadIdx.x % 32;
    if (n < state) to[n] = from[r];
  }
}

template <int R>
__device__ void scan(const SsdParams& p) {
  const int64_t item = int64_t{blockIdx.x} * kSsdWarps + threadIdx.x / 32, row = item % p.sizes.head_dim;
  if (item >= p.sizes.batch * p.sizes.heads * p.sizes.head_dim) return;
  const Head head = head_of(p.sizes, item / p.sizes.head_dim);
  float state[R] = {};
#pragma unroll 2
  for (int64_t t = 0; t < p.sizes.seq; ++t) {
    const Step<R> step = step_at<R>(p, head, t);
    const int64_t at = step.row * p.sizes.head_dim + row;
    advance(step, load_one(p.x, at), state);
    const float y = dot(state, step.c);
    if (threadIdx.x % 32 == 0) store_one(y, p.y, at);
  }
}

// ---- Gradient

__device__ int64_t spans_of(const SsdSizes& sizes) { return (sizes.seq + kSsdSpan - 1) / kSsdSpan; }

// Where the state of a head stands before a span.
__device__ float* state_at(const SsdGradParams& p, int64_t head_index, int64_t span, int64_t row) {
  const SsdSizes& z = p.forward.sizes;
  return reinterpret_cast<float*>(p.states) + ((head_index * spans_of(z) + span) * z.head_dim + row) * z.state;
}

template <int R>
__device__ void keep_states(const SsdGradParams& p) {
  const SsdSizes& z = p.forward.sizes;
  const int64_t item = int64_t{blockIdx.x} * kSsdWarps + threadIdx.x / 32, row = item % z.head_dim;
  if (item >= z.batch * z.heads * z.head_dim) return;
  const Head head = head_of(z, item / z.head_dim);
  float state[R] = {};
  for (int64_t span = 0; span < spans_of(z); ++span) {
    store_row(state, z.state, state_at(p, item / z.head_dim, span, row));
#pragma unroll 4
    for (int64_t t = span * kSsdSpan; t < (span + 1) * kSsdSpan && t < z.seq; ++t) {
      const Step<R> step = step_at<R>(p.forward, head, t);
      advance(step, load_one(p.forward.x, step.row * z.head_dim + row), state);
    }
  }
}

// What a warp sums over its rows of a head, for each position of a span.
template <int R>
struct SpanSums {
  float db[kSsdSpan][R * 32], dc[kSsdSpan][R * 32];
  float through_x[kSsdSpan], dlog_decay[kSsdSpan];
};

// One row of the state through a span, from its end to its start.
template <int R>
__device__ void span_of_row(const SsdGradParams& p, int64_t head_index, int64_t span, int64_t row, SpanSums<R>& sums) {
  const SsdSizes& z = p.forward.sizes;
  const Head head = head_of(z, head_index);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* kept = reinterpret_cast<float*>(p.dstates) + (head_index * z.head_dim + row) * z.state;
  float before[kSsdSpan + 1][R], dstate[R];
  load_row(state_at(p, head_index, span, row), z.state, before[0]);
  load_row(kept, z.state, dstate);
#pragma unroll
  for (int k = 0; k < kSsdSpan; ++k) {
    for (int r = 0; r < R; ++r) before[k + 1][r] = before[k][r];
    const int64_t t = span * kSsdSpan + k;
    if (t >= z.seq) continue;
    const Step<R> step = step_at<R>(p.forward, head, t);
    advance(step, load_one(p.forward.x, step.row * z.head_dim + row), before[k + 1]);
  }
#pragma unroll
  for (int k = kSsdSpan - 1; k >= 0; --k) {
    const int64_t t = span * kSsdSpan + k;
    if (t >= z.seq) continue;
    const Step<R> step = step_at<R>(p.forward, head, t);
    const int64_t at = step.row * z.head_dim + row;
    const float x = load_one(p.forward.x, at), dy = load_one(p.forward.y, at);
    for (int r = 0; r < R; ++r) {
      dstate[r] = fmaf(dy, step.c[r], dstate[r]);
      sums.dc[k][r * 32 + lane] += dy * before[k + 1][r];
      sums.db[k][r * 32 + lane] += step.dt * x * dstate[r];
    }
    const float reached = dot(dstate, step.b), dlog_decay = step.decay * dot(dstate, before[k]);
    for (int r = 0; r < R; ++r) dstate[r] *= step.decay;
    if (lane != 0) continue;
    store_one(step.dt * reached, p.dx, at);
    sums.through_x[k] += x * reached;
    sums.dlog_decay[k] += dlog_decay;
  }
  store_row(dstate, z.state, kept);
}

template <int R>
__device__ void clear(SpanSums<R>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int k = 0; k < kSsdSpan; ++k)
    for (int n = lane; n < R * 32; n += 32) sums.db[k][n] = 0.0F, sums.dc[k][n] = 0.0F;
  if (lane < kSsdSpan) sums.through_x[lane] = 0.0F, sums.dlog_decay[lane] = 0.0F;
  __syncwarp();
}

// The warps' sums of a span, in the order of the warps. Returns the share of da of this thread's position.
template <int R>
__device__ float add_up(const SsdGradParams& p, int64_t head_index, int64_t span, const SpanSums<R>* of_warps) {
  const SsdSizes& z = p.forward.sizes;
  const Head head = head_of(z, head_index);
  const auto row_of = [&](int64_t t) { return (head.batch * z.seq + t) * z.heads + head.head; };
  for (int64_t i = threadIdx.x; i < kSsdSpan * z.state; i += kSsdGradWarps * 32) {
    const int64_t k = i / z.state, n = i % z.state, t = span * kSsdSpan + k;
    if (t >= z.seq) continue;
    float db = 0.0F, dc = 0.0F;
    for (int w = 0; w < kSsdGradWarps; ++w) db += of_warps[w].db[k][n], dc += of_warps[w].dc[k][n];
    reinterpret_cast<float*>(p.db)[row_of(t) * z.state + n] = db;
    reinterpret_cast<float*>(p.dc)[row_of(t) * z.state + n] = dc;
  }
  const int64_t t = span * kSsdSpan + threadIdx.x;
  if (threadIdx.x >= kSsdSpan || t >= z.seq) return 0.0F;
  float through_x = 0.0F, dlog_decay = 0.0F;
  for (int w = 0; w < kSsdGradWarps; ++w) {
    through_x += of_warps[w].through_x[threadIdx.x];
    dlog_decay += of_warps[w].dlog_decay[threadIdx.x];
  }
  store_one(through_x + load_one(p.forward.a, head.head) * dlog_decay, p.ddt, row_of(t));
  return load_one(p.forward.dt, row_of(t)) * dlog_decay;
}

template <int R>
__device__ void gradient(const SsdGradParams& p) {
  extern __shared__ char shared[];
  SpanSums<R>* sums = reinterpret_cast<SpanSums<R>*>(shared);  // [kSsdGradWarps]
  const int64_t head_index = blockIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float da = 0.0F;
  for (int64_t span = spans_of(p.forward.sizes) - 1; span >= 0; --span) {
    clear(sums[warp]);
    for (int64_t row = warp; row < p.forward.sizes.head_dim; row += kSsdGradWarps)
      span_of_row(p, head_index, span, row, sums[warp]);
    __syncthreads();
    da += add_up(p, head_index, span, sums);
    __syncthreads();
  }
  if (warp != 0) return;
  da = warp_sum(da);
  if (threadIdx.x == 0) reinterpret_cast<float*>(p.da)[head_index] = da;
}

}  // namespace

#define MEGACPP_SSD_VARIANT(R)                                                                                        \
  extern "C" __global__ void __launch_bounds__(kSsdWarps * 32, 1) ssd_scan_##R(const __grid_constant__ SsdParams p) { \
    scan<R>(p);                                                                                                       \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(kSsdWarps * 32, 1)                                                     \
      ssd_keep_states_##R(const __grid_constant__ SsdGradParams p) {                                                  \
    keep_states<R>(p);                                                                                                \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(kSsdGradWarps * 32, 1)                                                 \
      ssd_gradient_##R(const __grid_constant__ SsdGradParams p) {                                                     \
    gradient<R>(p);                                                                                                   \
  }
MEGACPP_SSD_VARIANT(1)
MEGACPP_SSD_VARIANT(2)
MEGACPP_SSD_VARIANT(4)
MEGACPP_SSD_VARIANT(8)
#undef MEGACPP_SSD_VARIANT

extern "C" __global__ void ssd_group_sum(const __grid_constant__ SsdGroupSumParams p) {
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= p.rows * p.groups * p.state) return;
  const int64_t n = index % p.state, group = index / p.state % p.groups, row = index / p.state / p.groups;
  const int64_t in_group = p.heads / p.groups;
  float sum = 0.0F;
  for (int64_t h = group * in_group; h < (group + 1) * in_group; ++h)
    sum += reinterpret_cast<const float*>(p.of_heads)[(row * p.heads + h) * p.state + n];
  store_one(sum, p.sums, index);
}

// A warp takes a head.
extern "C" __global__ void ssd_rate_sum(const __grid_constant__ SsdRateSumParams p) {
  const int64_t head = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (head >= p.heads) return;
  float sum = 0.0F;
  for (int64_t part = threadIdx.x % 32; part < p.parts; part += 32)
    sum += reinterpret_cast<const float*>(p.of_parts)[part * p.heads + head];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) store_one(sum, p.da, head);
}

}  // namespace megacpp::runtime::cuda
