// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm and its gradient: each element is read once and stays in registers, as it was stored. The
// gradient's sum over rows has two passes: every block keeps the sums of the rows that it reads, then these are added
// in their order.
#include "megacpp/machine/cuda/kernels/elements.cuh"
#include "megacpp/machine/cuda/kernels/instructions.cuh"
#include "megacpp/machine/cuda/kernels/rms_norm_params.h"

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

// A vector of elements as they are stored.
template <typename X, int kVector>
struct Stored {
  static constexpr int kBytes = kVector * static_cast<int>(sizeof(X));
  uint32_t words[kBytes < 4 ? 1 : kBytes / 4];

  __device__ __forceinline__ void read(const X* from) { read_words<kBytes>(from, words); }
  __device__ __forceinline__ float operator[](int k) const { return Storage<X>::get(words, k); }
};

// A lane holds kHeld vectors of kVector elements; of longer groups the rest is read again.
template <typename X, typename W, int kVector, int kHeld>
__device__ __forceinline__ void norm(const RmsNormParams& p) {
  __shared__ float shared[kMostThreads / 32];
  const Place at(p.lanes, p.group);
  const bool live = at.row < p.rows;
  const int vectors = live ? p.group / kVector : 0;
  const int64_t first = at.row * p.width + at.column;
  const X* x = reinterpret_cast<const X*>(p.x) + first;
  const W* w = reinterpret_cast<const W*>(p.w) + at.column;
  X* y = reinterpret_cast<X*>(p.y) + first;
  Stored<X, kVector> held[kHeld];
  float squares = 0.0F;
  const auto add_squares = [&](const Stored<X, kVector>& values) {
#pragma unroll
    for (int k = 0; k < kVector; ++k) squares += values[k] * values[k];
  };
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
    if (const int v = at.lane + h * p.lanes; v < vectors) held[h].read(x + v * kVector);
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
    if (at.lane + h * p.lanes < vectors) add_squares(held[h]);
  for (int v = at.lane + kHeld * p.lanes; v < vectors; v += p.lanes) {
    Stored<X, kVector> again;
    again.read(x + v * kVector);
    add_squares(again);
  }
  squares = sum_of_lanes(squares, p.lanes, shared);
  const float rstd = 1.0F / sqrtf(squares / static_cast<float>(p.group) + p.eps);
  const auto write = [&](int v, const Stored<X, kVector>& values) {
    float scaled[kVector];
    load<kVector>(w + v * kVector, scaled);
#pragma unroll
    for (int k = 0; k < kVector; ++k) scaled[k] = values[k] * rstd * (scaled[k] + p.offset);
    store<kVector>(y + v * kVector, scaled);
  };
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
    if (const int v = at.lane + h * p.lanes; v < vectors) write(v, held[h]);
  for (int v = at.lane + kHeld * p.lanes; v < vectors; v += p.lanes) {
    Stored<X, kVector> again;
    again.read(x + v * kVector);
    write(v, again);
  }
  if (live && at.lane == 0) reinterpret_cast<float*>(p.rstd)[at.row * gridDim.y + blockIdx.y] = rstd;
}

// The block's sums of dw: over its rows at once, one after another.
template <int kVector, int kHeld>
__device__ __forceinline__ void keep_weights(const RmsNormGradParams& p, const Place& at, float (&dw)[kHeld][kVector]) {
  // Blocks of several rows have at most 64 lanes for each.
  __shared__ float sums[kHeld * kVector][kRmsNormSharedLanes];
  const int rows = static_cast<int>(blockDim.x) / p.lanes, own = static_cast<int>(threadIdx.x) / p.lanes;
  float* partial = reinterpret_cast<float*>(p.partials) + blockIdx.x * p.width + at.column;
  for (int row = 0; row < rows; ++row) {
    if (row > 0) __syncthreads();
    if (row != own) continue;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int v = at.lane + h * p.lanes;
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        if (row > 0) dw[h][k] += sums[h * kVector + k][at.lane];
        if (row + 1 < rows) sums[h * kVector + k][at.lane] = dw[h][k];
      }
      if (row + 1 == rows && v < p.group / kVector) store<kVector>(partial + v * kVector, dw[h]);
    }
  }
}

// dx = rstd (dy gain - x rstd^2 mean(dy gain x)) + addend; dw = sum over rows of dy x rstd. A group has at most kHeld
// vectors for each lane. dx may be dy, or the addend.
template <typename X, typename W, int kVector, int kHeld>
__device__ __forceinline__ void norm_grad(const RmsNormGradParams& p) {
  __shared__ float shared[kMostThreads / 32];
  const Place at(p.lanes, p.group);
  const int rows_of_block = static_cast<int>(blockDim.x) / p.lanes;
  const W* w = reinterpret_cast<const W*>(p.w) + at.column;
  float dw[kHeld][kVector] = {};
  for (int64_t row = at.row; row - at.row + static_cast<int64_t>(blockIdx.x) * rows_of_block < p.rows;
       row += static_cast<int64_t>(gridDim.x) * rows_of_block) {
    const bool live = row < p.rows;
    const int vectors = live ? p.group / kVector : 0;
    const int64_t first = row * p.width + at.column;
    const X* x = reinterpret_cast<const X*>(p.x) + first;
    const X* dy = reinterpret_cast<const X*>(p.dy) + first;
    const X* addend = p.addend == 0 ? nullptr : reinterpret_cast<const X*>(p.addend) + first;
    X* dx = reinterpret_cast<X*>(p.dx) + first;
    const float rstd = live ? reinterpret_cast<const float*>(p.rstd)[row * gridDim.y + blockIdx.y] : 0.0F;
    Stored<X, kVector> xs[kHeld], dys[kHeld];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int v = at.lane + h * p.lanes;
      if (v >= vectors) continue;
      xs[h].read(x + v * kVector);
      dys[h].read(dy + v * kVector);
    }
    float along = 0.0F;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int v = at.lane + h * p.lanes;
      if (v >= vectors) continue;
      float gain[kVector];
      load<kVector>(w + v * kVector, gain);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        const float product = dys[h][k] * xs[h][k];
        dw[h][k] += product * rstd;
        along += product * (gain[k] + p.offset);
      }
    }
    along = sum_of_lanes(along, p.lanes, shared) / static_cast<float>(p.group) * rstd * rstd;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int v = at.lane + h * p.lanes;
      if (v >= vectors) continue;
      float gain[kVector], out[kVector], added[kVector] = {};
      load<kVector>(w + v * kVector, gain);
      if (addend != nullptr) load<kVector>(addend + v * kVector, added);
#pragma unroll
      for (int k = 0; k < kVector; ++k)
        out[k] = rstd * (dys[h][k] * (gain[k] + p.offset) - xs[h][k] * along) + added[k];
      store<kVector>(dx + v * kVector, out);
    }
  }
  keep_weights(p, at, dw);
}

// The tensors of a row that are on their way to shared memory: each thread copies, and later reads, its own vectors.
template <typename X, int kVector, int kHeld>
struct StagedRow {
  static constexpr int kArrays = 3;  // x, dy, addend
  uint4* own;                        // of the thread, in the stage
  int vectors;                       // of the row; 0 behind the last
  int lane, lanes;

  __device__ __forceinline__ uint4* slot(int array, int h) const { return own + (array * kHeld + h) * kRmsNormThreads; }
  __device__ __forceinline__ bool has(int h) const { return lane + h * lanes < vectors; }
  __device__ __forceinline__ void copy(int array, const X* row) const {
#pragma unroll
    for (int h = 0; h < kHeld; ++h)
      if (has(h)) start_copy(slot(array, h), row + (lane + h * lanes) * kVector, true);
  }
  __device__ __forceinline__ Stored<X, kVector> read(int array, int h) const {
    Stored<X, kVector> values;
    values.read(reinterpret_cast<const X*>(slot(array, h)));
    return values;
  }
};

// norm_grad of rows whose vectors are of 16 bytes, eight to a lane at most: the next row is on its way to shared memory
// while one is worked on.
template <typename X, typename W, int kVector, int kHeld>
__device__ __forceinline__ void norm_grad_staged(const RmsNormGradParams& p) {
  static_assert(kVector * sizeof(X) == sizeof(uint4) && kHeld == kRmsNormStagedVectors);
  using Row = StagedRow<X, kVector, kHeld>;
  extern __shared__ uint4 staged[];
  __shared__ float shared[kRmsNormThreads / 32];
  const Place at(p.lanes, p.group);
  const int rows_of_block = static_cast<int>(blockDim.x) / p.lanes;
  const int64_t rows_of_grid = static_cast<int64_t>(gridDim.x) * rows_of_block;
  const bool has_addend = p.addend != 0;
  const auto row_at = [&](int64_t row, int stage) {
    return Row{.own = staged + stage * Row::kArrays * kHeld * kRmsNormThreads + threadIdx.x,
               .vectors = row < p.rows ? p.group / kVector : 0,
               .lane = at.lane,
               .lanes = p.lanes};
  };
  const auto fetch = [&](int64_t row, int stage) {
    const Row wanted = row_at(row, stage);
    const int64_t first = row * p.width + at.column;
    wanted.copy(0, reinterpret_cast<const X*>(p.x) + first);
    wanted.copy(1, reinterpret_cast<const X*>(p.dy) + first);
    if (has_addend) wanted.copy(2, reinterpret_cast<const X*>(p.addend) + first);
    commit_copies();
    return row < p.rows ? reinterpret_cast<const float*>(p.rstd)[row * gridDim.y + blockIdx.y] : 0.0F;
  };
  Stored<W, kVector> gains[kHeld];
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
    if (const int v = at.lane + h * p.lanes; v < p.group / kVector)
      gains[h].read(reinterpret_cast<const W*>(p.w) + at.column + v * kVector);
  float dw[kHeld][kVector] = {};
  float next_rstd = fetch(at.row, 0);
  int stage = 0;
  for (int64_t row = at.row; row - at.row + static_cast<int64_t>(blockIdx.x) * rows_of_block < p.rows;
       row += rows_of_grid, stage ^= 1) {
    const float rstd = next_rstd;
    next_rstd = fetch(row + rows_of_grid, stage ^ 1);
    wait_for_earlier_copies();
    const Row here = row_at(row, stage);
    float along = 0.0F;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      if (!here.has(h)) continue;
      const Stored<X, kVector> x = here.read(0, h), dy = here.read(1, h);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        const float product = dy[k] * x[k];
        dw[h][k] += product * rstd;
        along += product * (gains[h][k] + p.offset);
      }
    }
    along = sum_of_lanes(along, p.lanes, shared) / static_cast<float>(p.group) * rstd * rstd;
    X* const dx = reinterpret_cast<X*>(p.dx) + row * p.width + at.column;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      if (!here.has(h)) continue;
      const Stored<X, kVector> x = here.read(0, h), dy = here.read(1, h);
      float out[kVector];
#pragma unroll
      for (int k = 0; k < kVector; ++k) out[k] = rstd * (dy[k] * (gains[h][k] + p.offset) - x[k] * along);
      if (has_addend) {
        const Stored<X, kVector> added = here.read(2, h);
#pragma unroll
        for (int k = 0; k < kVector; ++k) out[k] += added[k];
      }
      store<kVector>(dx + (at.lane + h * p.lanes) * kVector, out);
    }
  }
  wait_for_copies();
  keep_weights(p, at, dw);
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

// Name of the storage of x and of w; x read in vectors of sixteen bytes, two, eight or four to a lane, or one by one.
// Blocks have at most `threads`; a multiprocessor is to hold `blocks` of the gradient, which is `grad`.
#define MEGACPP_RMS_NORM(x_name, X, w_name, W, spread, vector, held, threads, blocks, grad)       \
  extern "C" __global__ void __launch_bounds__(threads)                                           \
      rms_norm_##x_name##_##w_name##_##spread(const __grid_constant__ RmsNormParams p) {          \
    norm<X, W, vector, held>(p);                                                                  \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(threads, blocks)                                   \
      rms_norm_grad_##x_name##_##w_name##_##spread(const __grid_constant__ RmsNormGradParams p) { \
    grad<X, W, vector, held>(p);                                                                  \
  }

#define MEGACPP_RMS_NORM_SPREADS(x_name, X, w_name, W, vector)                                   \
  MEGACPP_RMS_NORM(x_name, X, w_name, W, two, vector, 2, kRmsNormThreads, 8, norm_grad)          \
  MEGACPP_RMS_NORM(x_name, X, w_name, W, eight, vector, 8, kRmsNormThreads, 2, norm_grad_staged) \
  MEGACPP_RMS_NORM(x_name, X, w_name, W, four, vector, 4, kMostThreads, 1, norm_grad)            \
  MEGACPP_RMS_NORM(x_name, X, w_name, W, single, 1, 8, kMostThreads, 1, norm_grad)

MEGACPP_RMS_NORM_SPREADS(f32, float, f32, float, 4)
MEGACPP_RMS_NORM_SPREADS(f32, float, bf16, bf16, 4)
MEGACPP_RMS_NORM_SPREADS(bf16, bf16, f32, float, 8)
MEGACPP_RMS_NORM_SPREADS(bf16, bf16, bf16, bf16, 8)

extern "C" __global__ void rms_norm_weight_f32(const __grid_constant__ RmsNormWeightParams p) { add_parts<float>(p); }
extern "C" __global__ void rms_norm_weight_bf16(const __grid_constant__ RmsNormWeightParams p) { add_parts<bf16>(p); }
