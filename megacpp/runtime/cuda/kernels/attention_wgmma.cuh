// SPDX-License-Identifier: Apache-2.0
// What the two attention kernels of tensor cores share. Without `any_mask` queries and keys stand in order and a query
// sees a band of keys, by causality or a window: then no tile of a range of blocks is hidden.
#pragma once

#include "megacpp/runtime/cuda/kernels/attention_hopper.cuh"
#include "megacpp/runtime/cuda/kernels/attention_params.h"

namespace megacpp::runtime::cuda {

inline constexpr float kLog2e = 1.4426950408889634F;

// A ring of stages, a power of two: which one is next, and in which phase its barriers are.
template <uint32_t stages>
struct Ring {
  uint32_t count = 0;

  __device__ uint32_t stage() const { return count % stages; }
  __device__ uint32_t phase() const { return count / stages % 2; }
  __device__ void advance() { ++count; }
};

// Tokens [begin, end).
struct TokenSpan {
  int32_t begin, end;
};

// The block of `size` tokens that begins at `begin`, as far as there are any.
__device__ inline TokenSpan span_of(int32_t begin, int32_t size, int32_t tokens) {
  return {begin, begin + size < tokens ? begin + size : tokens};
}

// Of queries and keys that begin at multiples of kTokenBlock.
template <bool any_mask>
__device__ TileCover cover_of(const TileVisibility& visibility, int32_t b, TokenSpan queries, TokenSpan keys) {
  if (!any_mask) return visibility.mask.cover_of_band({queries.begin, queries.end - 1}, {keys.begin, keys.end - 1});
  return visibility.mask.cover(visibility.range_of_queries(b, queries.begin, queries.end),
                               visibility.range_of_keys(b, keys.begin, keys.end));
}

// As the register operand of products: two columns of a row in a word.
template <int n>
__device__ void pack_operand(const float (&values)[n], uint32_t (&words)[n / 8][4]) {
#pragma unroll
  for (int k = 0; k < n / 8; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) words[k][i] = hopper::pack(values[8 * k + 2 * i], values[8 * k + 2 * i + 1]);
}

// The first of the thread's two rows of 64 that sums have; the second is 8 further.
__device__ inline int first_row(int thread) { return thread / 32 * 16 + thread % 32 / 4; }

// One row of the thread's sums, times `factor`, to a row of bf16 in global memory.
template <int pieces>
__device__ void store_row(const float (&sums)[pieces][32], int half, float factor, __nv_bfloat16* row) {
  uint32_t* words = reinterpret_cast<uint32_t*>(row) + threadIdx.x % 4;
#pragma unroll
  for (int piece = 0; piece < pieces; ++piece)
#pragma unroll
    for (int j = 0; j < 8; ++j)
      words[piece * 32 + j * 4] =
          hopper::pack(sums[piece][4 * j + 2 * half] * factor, sums[piece][4 * j + 2 * half + 1] * factor);
}

}  // namespace megacpp::runtime::cuda
