// SPDX-License-Identifier: Apache-2.0
// A warp takes a token: its row is read once and the rows of its slots are written (dispatch), or they are read once
// and their sum is written (combine).
#include "megacpp/machine/cuda/kernels/dispatch_params.h"
#include "megacpp/machine/cuda/kernels/float_access.cuh"

namespace megacpp::runtime::cuda {
namespace {

__device__ int64_t own_item() { return int64_t{blockIdx.x} * kDispatchWarps + threadIdx.x / 32; }
__device__ int own_lane() { return static_cast<int>(threadIdx.x) % 32; }

// Where among the rows of all chunks a choice of a token stands; -1: nowhere.
__device__ int64_t row_of(const DispatchSizes& sizes, uint64_t slots, int64_t token, int64_t choice) {
  const int32_t slot = reinterpret_cast<const int32_t*>(slots)[token * sizes.choices + choice];
  return slot < 0 ? -1 : token / sizes.tokens_in_chunk * sizes.rows_in_chunk + slot;
}

__device__ float weight_of(const DispatchParams& p, int64_t token, int64_t choice) {
  return p.weights.address == 0 ? 1.0F : load_one(p.weights, token * p.sizes.choices + choice);
}

template <Storage S, int V>
__device__ void dispatch(const DispatchParams& p) {
  const int64_t token = own_item(), width = p.sizes.width;
  if (token >= p.sizes.tokens) return;
  for (int64_t at = own_lane() * V; at < width; at += 32 * V) {
    float x[V];
    load<S>(p.tokens, token * width + at, x);
    for (int64_t choice = 0; choice < p.sizes.choices; ++choice) {
      const int64_t row = row_of(p.sizes, p.slots, token, choice);
      if (row < 0) continue;
      const float weight = weight_of(p, token, choice);
      float scaled[V];
      for (int v = 0; v < V; ++v) scaled[v] = weight * x[v];
      store<S>(scaled, p.rows, row * width + at);
    }
  }
  for (int64_t choice = own_lane(); choice < p.sizes.choices; choice += 32) {
    const int64_t row = row_of(p.sizes, p.slots, token, choice);
    if (row >= 0) reinterpret_cast<uint8_t*>(p.is_used)[row] = 1;
  }
}

template <Storage S, int V>
__device__ void clear_rows(const ClearRowsParams& p) {
  const int64_t row = own_item();
  if (row >= p.count || reinterpret_cast<const uint8_t*>(p.is_used)[row] != 0) return;
  const float zeros[V] = {};
  for (int64_t at = own_lane() * V; at < p.width; at += 32 * V) store<S>(zeros, p.rows, row * p.width + at);
}

template <Storage S, int V>
__device__ void combine(const DispatchParams& p) {
  const int64_t token = own_item(), width = p.sizes.width;
  if (token >= p.sizes.tokens) return;
#pragma unroll 2
  for (int64_t at = own_lane() * V; at < width; at += 32 * V) {
    float sum[V] = {};
    if (p.addend.address != 0) load<S>(p.addend, token * width + at, sum);
#pragma unroll 2
    for (int64_t choice = 0; choice < p.sizes.choices; ++choice) {
      const int64_t row = row_of(p.sizes, p.slots, token, choice);
      if (row < 0) continue;
      const float weight = weight_of(p, token, choice);
      float y[V];
      load<S>(p.rows, row * width + at, y);
      for (int v = 0; v < V; ++v) sum[v] = fmaf(weight, y[v], sum[v]);
    }
    store<S>(sum, p.tokens, token * width + at);
  }
}

template <Storage S, int V>
__device__ void slot_dots(const SlotDotsParams& p) {
  const int64_t token = own_item(), width = p.sizes.width;
  if (token >= p.sizes.tokens) return;
  for (int64_t choice = 0; choice < p.sizes.choices; ++choice) {
    const int64_t row = row_of(p.sizes, p.slots, token, choice);
    float sum = 0.0F;
#pragma unroll 4
    for (int64_t at = own_lane() * V; row >= 0 && at < width; at += 32 * V) {
      float x[V], y[V];
      load<S>(p.tokens, token * width + at, x);
      load<S>(p.rows, row * width + at, y);
      for (int v = 0; v < V; ++v) sum = fmaf(x[v], y[v], sum);
    }
    sum = warp_sum(sum);
    if (own_lane() == 0) store_one(sum, p.dots, token * p.sizes.choices + choice);
  }
}

}  // namespace

#define MEGACPP_DISPATCH_VARIANT(storage, V)                                                         \
  extern "C" __global__ void dispatch_##storage##_##V(const __grid_constant__ DispatchParams p) {    \
    dispatch<Storage::storage, V>(p);                                                                \
  }                                                                                                  \
  extern "C" __global__ void clear_rows_##storage##_##V(const __grid_constant__ ClearRowsParams p) { \
    clear_rows<Storage::storage, V>(p);                                                              \
  }                                                                                                  \
  extern "C" __global__ void combine_##storage##_##V(const __grid_constant__ DispatchParams p) {     \
    combine<Storage::storage, V>(p);                                                                 \
  }                                                                                                  \
  extern "C" __global__ void slot_dots_##storage##_##V(const __grid_constant__ SlotDotsParams p) {   \
    slot_dots<Storage::storage, V>(p);                                                               \
  }
MEGACPP_DISPATCH_VARIANT(f32, 1)
MEGACPP_DISPATCH_VARIANT(f32, 4)
MEGACPP_DISPATCH_VARIANT(bf16, 1)
MEGACPP_DISPATCH_VARIANT(bf16, 8)
#undef MEGACPP_DISPATCH_VARIANT

}  // namespace megacpp::runtime::cuda
