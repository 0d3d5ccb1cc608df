// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm and its gradient: each element is read once and stays in registers. The gradient's sum over
// rows has two passes: every run of lanes keeps the sums of the rows that it reads, then these are added in their
// order.
#include "megacpp/runtime/cuda/kernels/elements.cuh"
#include "megacpp/runtime/cuda/kernels/rms_norm_params.h"

using namespace elements;
using namespace megacpp::runtime::cuda;

namespace {

constexpr int kMostThreads = 512;

// Where a thread is: its lane in the group, its row in the block.
struct Place {
  int lane;
  int64_t row;     // of the block's first rows
  int64_t column;  // the group's first

  __device__ Place(int lanes, int group)
      : lane(static_cast<int>(threadIdx.x) & (lanes - 1)),
        row(static_cast<int64_t>(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes),
        column(static_cast<int64_t>(blockIdx.y) * group) {}
};

// A lane holds kHeld vectors of kVector elements; of longer groups the rest is read again.
template <typename X, typename W, int kVector, int kHeld>
__device__ __forceinline__ void norm(const RmsNormParams& p) {
  __shared__ float shared[kMostThreads / 32];
  const Place at(p.lanes, p.group);
  const bool live = at.row < p.rows;
  const int vectors = p.group / kVector;
  const int64_t first = at.row * p.width + at.column;
  const X* x = reinterpret_cast<const X*>(p.x) + first;
  const W* w = reinterpret_cast<const W*>(p.w) + at.column;
  X* y = reinterpret_cast<X*>(p.y) + first;
  float held[kHeld][kVector];
  float squares = 0.0F;
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int v = at.lane + h * p.lanes;
    if (!live || v >= vectors) continue;
    load<kVector>(x + v * kVector, held[h]);
#pragma unroll
    for (int k = 0; k < kVector; ++k) squares += held[h][k] * held[h][k];
  }
  for (int v = at.lane + kHeld * p.lanes; live && v < vectors; v += p.lanes) {
    float again[kVector];
    load<kVector>(x + v * kVector, again);
    for (int k = 0; k < kVector; ++k) squares += again[k] * again[k];
  }
  squares = sum_of_lanes(squares, p.lanes, shared);
  if (!live) return;
  const float rstd = 1.0F / sqrtf(squares / static_cast<float>(p.group) + p.eps);
  const auto write = [&](int v, float* values) {
    float gain[kVector];
    load<kVector>(w + v * kVector, gain);
#pragma unroll
    for (int k = 0; k < kVector; ++k) values[k] = values[k] * rstd * (gain[k] + p.offset);
    store<kVector>(y + v * kVector, values);
  };
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
    if (const int v = at.lane + h * p.lanes; v < vectors) write(v, held[h]);
  for (int v = at.lane + kHeld * p.lanes; v < vectors; v += p.lanes) {
    float again[kVector];
    load<kVector>(x + v * kVector, again);
    write(v, again);
  }
  if (at.lane == 0) reinterpret_cast<float*>(p.rstd)[at.row * gridDim.y + blockIdx.y] = rstd;
}

// dx = rstd (dy gain - x rstd^2 mean(dy gain x)); dw = sum over rows of dy x rstd. A group has at most kHeld vectors
// for each lane. dx may be dy.
template <typename X, typename W, int kVector, int kHeld>
__device__ __forceinline__ void norm_grad(const RmsNormGradParams& p) {
  __shared__ float shared[kMostThreads / 32];
  const Place at(p.lanes, p.group);
  const int vectors = p.group / kVector, rows_of_block = static_cast<int>(blockDim.x) / p.lanes;
  const W* w = reinterpret_cast<const W*>(p.w) + at.column;
  float dw[kHeld][kVector] = {};
  for (int64_t row = at.row; row - at.row + static_cast<int64_t>(blockIdx.x) * rows_of_block < p.rows;
       row += static_cast<int64_t>(gridDim.x) * rows_of_block) {
    const bool live = row < p.rows;
    const int64_t first = row * p.width + at.column;
    const X* x = reinterpret_cast<const X*>(p.x) + first;
    const X* dy = reinterpret_cast<const X*>(p.dy) + first;
    X* dx = reinterpret_cast<X*>(p.dx) + first;
    const float rstd = live ? reinterpret_cast<const float*>(p.rstd)[row * gridDim.y + blockIdx.y] : 0.0F;
    float xs[kHeld][kVector], dys[kHeld][kVector];  // dys become dy gain
    float along = 0.0F;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int v = at.lane + h * p.lanes;
      if (!live || v >= vectors) continue;
      load<kVector>(x + v * kVector, xs[h]);
      load<kVector>(dy + v * kVector, dys[h]);
    }
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int v = at.lane + h * p.lanes;
      if (!live || v >= vectors) continue;
      float gain[kVector];
      load<kVector>(w + v * kVector, gain);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        dw[h][k] += dys[h][k] * xs[h][k] * rstd;
        dys[h][k] *= gain[k] + p.offset;
        along += dys[h][k] * xs[h][k];
      }
    }
    along = sum_of_lanes(along, p.lanes, shared) / static_cast<float>(p.group) * rstd * rstd;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int v = at.lane + h * p.lanes;
      if (!live || v >= vectors) continue;
#pragma unroll
      for (int k = 0; k < kVector; ++k) dys[h][k] = rstd * (dys[h][k] - xs[h][k] * along);
      store<kVector>(dx + v * kVector, dys[h]);
    }
  }
  float* partial = reinterpret_cast<float*>(p.partials) + at.row * p.width + at.column;
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
    if (const int v = at.lane + h * p.lanes; v < vectors) store<kVector>(partial + v * kVector, dw[h]);
}

// A thread for each column and each of kRmsNormWeightRows runs of parts.
template <typename W>
__device__ __forceinline__ void add_parts(const RmsNormWeightParams& p) {
  __shared__ float sums[kRmsNormWeightRows][kRmsNormWeightColumns + 1];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kRmsNormWeightColumns + threadIdx.x;
  const float* partials = reinterpret_cast<const float*>(p.partials);
  float sum = 0.0F;
#pragma unroll 8
  for (int part = static_cast<int>(threadIdx.y); part < p.parts; part += kRmsNormWeightRows)
    if (column < p.width) sum += partials[part * p.width + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  for (int half = kRmsNormWeightRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.y) < half) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + half][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < p.width) store_one(reinterpret_cast<W*>(p.dw) + column, sums[0][threadIdx.x]);
}

}  // namespace

// Name of the storage of x and of w; x read in vectors of sixteen bytes, two or four to a lane, or one by one.
#define MEGACPP_RMS_NORM(x_name, X, w_name, W, spread, vector, held)                              \
  extern "C" __global__ void __launch_bounds__(kMostThreads)                                      \
      rms_norm_##x_name##_##w_name##_##spread(const __grid_constant__ RmsNormParams p) {          \
    norm<X, W, vector, held>(p);                                                                  \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(kMostThreads)                                      \
      rms_norm_grad_##x_name##_##w_name##_##spread(const __grid_constant__ RmsNormGradParams p) { \
    norm_grad<X, W, vector, held>(p);                                                             \
  }

#define MEGACPP_RMS_NORM_SPREADS(x_name, X, w_name, W, vector) \
  MEGACPP_RMS_NORM(x_name, X, w_name, W, two, vector, 2)       \
  MEGACPP_RMS_NORM(x_name, X, w_name, W, four, vector, 4)      \
  MEGACPP_RMS_NORM(x_name, X, w_name, W, single, 1, 8)

MEGACPP_RMS_NORM_SPREADS(f32, float, f32, float, 4)
MEGACPP_RMS_NORM_SPREADS(f32, float, bf16, bf16, 4)
MEGACPP_RMS_NORM_SPREADS(bf16, bf16, f32, float, 8)
MEGACPP_RMS_NORM_SPREADS(bf16, bf16, bf16, bf16, 8)

extern "C" __global__ void rms_norm_weight_f32(const __grid_constant__ RmsNormWeightParams p) { add_parts<float>(p); }
extern "C" __global__ void rms_norm_weight_bf16(const __grid_constant__ RmsNormWeightParams p) { add_parts<bf16>(p); }
