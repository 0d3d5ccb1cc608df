// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy and its gradient: a block reads a row of logits once; the gradient writes it once, in place
// where it may.
#include "megacpp/machine/cuda/kernels/cross_entropy_params.h"
#include "megacpp/machine/cuda/kernels/elements.cuh"

using namespace elements;
using namespace megacpp::runtime::cuda;

namespace {

// Of some logits: the largest, and the sum of their exponentials when it is taken off.
struct Softmax {
  float top = -INFINITY;
  float sum = 0.0F;

  __device__ __forceinline__ void add(const Softmax& other) {
    const float larger = fmaxf(top, other.top);
    const float mine = top == larger ? sum : sum * __expf(top - larger);
    const float theirs = other.top == larger ? other.sum : other.sum * __expf(other.top - larger);
    top = larger;
    sum = mine + theirs;
  }
};

template <int kVector>
__device__ __forceinline__ void add_vector(Softmax& softmax, const float* x) {
  float top = x[0];
#pragma unroll
  for (int k = 1; k < kVector; ++k) top = fmaxf(top, x[k]);
  if (top == -INFINITY) return;  // they add nothing, and their distance to the top has no number
  if (top > softmax.top) {
    softmax.sum *= __expf(softmax.top - top);
    softmax.top = top;
  }
#pragma unroll
  for (int k = 0; k < kVector; ++k) softmax.sum += __expf(x[k] - softmax.top);
}

template <typename T, int kVector>
__device__ __forceinline__ void loss(const CrossEntropyParams& p) {
  __shared__ Softmax shared[kCrossEntropyThreads];
  const T* row = reinterpret_cast<const T*>(p.logits) + static_cast<int64_t>(blockIdx.x) * p.width;
  const int64_t vectors = p.width / kVector;
  Softmax own;
#pragma unroll 4
  for (int64_t v = threadIdx.x; v < vectors; v += blockDim.x) {
    float x[kVector];
    load<kVector>(row + v * kVector, x);
    add_vector<kVector>(own, x);
  }
  shared[threadIdx.x] = own;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x].add(shared[threadIdx.x + half]);
  }
  if (threadIdx.x != 0) return;
  const float lse = shared[0].top + logf(shared[0].sum);
  const int32_t label = reinterpret_cast<const int32_t*>(p.labels)[blockIdx.x];
  reinterpret_cast<float*>(p.lse)[blockIdx.x] = lse;
  reinterpret_cast<float*>(p.nll)[blockIdx.x] = label < 0 ? 0.0F : lse - load_one(row + label);
}

// Logits may give their place to a gradient of their dtype: a thread reads its elements before it writes them, and no
// element of another thread.
template <typename T, typename Result, int kVector>
__device__ __forceinline__ void loss_grad(const CrossEntropyGradParams& p) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * p.width, vectors = p.width / kVector;
  const T* row = reinterpret_cast<const T*>(p.logits) + first;
  Result* out = reinterpret_cast<Result*>(p.dlogits) + first;
  const int32_t label = reinterpret_cast<const int32_t*>(p.labels)[blockIdx.x];
  const float lse = reinterpret_cast<const float*>(p.lse)[blockIdx.x];
  const float at_label = label < 0 ? 0.0F : reinterpret_cast<const float*>(p.dnll)[blockIdx.x];
  const float factor = at_label + reinterpret_cast<const float*>(p.dlse)[blockIdx.x];
  for (int64_t v = threadIdx.x; v < vectors; v += blockDim.x) {
    float x[kVector];
    load<kVector>(row + v * kVector, x);
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      x[k] = factor == 0.0F ? 0.0F : factor * __expf(x[k] - lse);
      if (v * kVector + k == label) x[k] -= at_label;
    }
    store<kVector>(out + v * kVector, x);
  }
}

}  // namespace

// Name of the storage of the logits and of their gradient; logits read in vectors of sixteen bytes or one by one.
#define MEGACPP_CROSS_ENTROPY(name, T, spread, vector)                                \
  extern "C" __global__ void __launch_bounds__(kCrossEntropyThreads)                  \
      cross_entropy_##name##_##spread(const __grid_constant__ CrossEntropyParams p) { \
    loss<T, vector>(p);                                                               \
  }
#define MEGACPP_CROSS_ENTROPY_GRAD(name, T, result_name, Result, spread, vector)                               \
  extern "C" __global__ void __launch_bounds__(kCrossEntropyThreads)                                           \
      cross_entropy_grad_##name##_##result_name##_##spread(const __grid_constant__ CrossEntropyGradParams p) { \
    loss_grad<T, Result, vector>(p);                                                                           \
  }
#define MEGACPP_CROSS_ENTROPY_ALL(name, T, spread, vector)        \
  MEGACPP_CROSS_ENTROPY(name, T, spread, vector)                  \
  MEGACPP_CROSS_ENTROPY_GRAD(name, T, f32, float, spread, vector) \
  MEGACPP_CROSS_ENTROPY_GRAD(name, T, bf16, bf16, spread, vector)

MEGACPP_CROSS_ENTROPY_ALL(f32, float, vector, 4)
MEGACPP_CROSS_ENTROPY_ALL(f32, float, single, 1)
MEGACPP_CROSS_ENTROPY_ALL(bf16, bf16, vector, 8)
MEGACPP_CROSS_ENTROPY_ALL(bf16, bf16, single, 1)
