// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding. A thread turns one vector of pairs, or copies one of the elements that do not turn; y may
// be x.
#include "megacpp/machine/cuda/kernels/elements.cuh"
#include "megacpp/machine/cuda/kernels/rope_params.h"

using namespace elements;
using namespace megacpp::runtime::cuda;

namespace {

template <typename X, typename Table, int kVector>
__device__ __forceinline__ void rope(const RopeParams& p) {
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= p.threads) return;
  const Quotient head = divided(thread, (p.dim - p.half) / kVector);
  const X* x = reinterpret_cast<const X*>(p.x) + head.whole * p.dim;
  X* y = reinterpret_cast<X*>(p.y) + head.whole * p.dim;
  const uint32_t i = head.rest * kVector;
  float low[kVector];
  if (i >= p.half) {
    load<kVector>(x + i + p.half, low);
    store<kVector>(y + i + p.half, low);
    return;
  }
  const uint64_t row = divided(divided(head.whole, p.heads).whole, p.sequence).rest;
  float high[kVector], cos[kVector], sin[kVector], turned_low[kVector], turned_high[kVector];
  load<kVector>(x + i, low);
  load<kVector>(x + i + p.half, high);
  load<kVector>(reinterpret_cast<const Table*>(p.cos) + row * p.half + i, cos);
  load<kVector>(reinterpret_cast<const Table*>(p.sin) + row * p.half + i, sin);
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float s = p.sign * sin[k];
    turned_low[k] = low[k] * cos[k] - high[k] * s;
    turned_high[k] = high[k] * cos[k] + low[k] * s;
  }
  store<kVector>(y + i, turned_low);
  store<kVector>(y + i + p.half, turned_high);
}

}  // namespace

// Name of the storage of x and of the tables; x read in vectors of sixteen bytes or one by one.
#define MEGACPP_ROPE(x_name, X, table_name, Table, vector)                                                 \
  extern "C" __global__ void rope_##x_name##_##table_name##_vector(const __grid_constant__ RopeParams p) { \
    rope<X, Table, vector>(p);                                                                             \
  }                                                                                                        \
  extern "C" __global__ void rope_##x_name##_##table_name##_single(const __grid_constant__ RopeParams p) { \
    rope<X, Table, 1>(p);                                                                                  \
  }

MEGACPP_ROPE(f32, float, f32, float, 4)
MEGACPP_ROPE(f32, float, bf16, bf16, 4)
MEGACPP_ROPE(bf16, bf16, f32, float, 8)
MEGACPP_ROPE(bf16, bf16, bf16, bf16, 8)
