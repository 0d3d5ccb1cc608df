// SPDX-License-Identifier: Apache-2.0
// What the two attention kernels of tensor cores share. Without `any_mask` queries and keys stand in order and a query
// sees a band of keys, by causality or a window: then no tile of a range of blocks is hidden.
#pragma once

#include "megacpp/machine/cuda/kernels/attention_hopper.cuh"
#include "megacpp/machine/cuda/kernels/attention_params.h"

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

// Where a warp's 16 rows of sums go: bf16 in global memory, by way of shared memory that is the warp's own.
struct WarpRows {
  uint32_t staging;  // [pieces, 16 rows, 64 columns]
  uint32_t piece_bytes;
  __nv_bfloat16* to;  // the first row
  int64_t stride;     // elements from row to row
  int32_t rows;       // that there are; may be less than 16
};

// The sums of a warp, times a factor for each of a thread's two rows: 128 bytes of a row are written at a time.
template <int pieces>
__device__ void store_rows(const float (&sums)[pieces][32], const float (&factors)[2], const WarpRows& rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto place = [&](int piece, int row, int chunk) {
    return rows.staging + static_cast<uint32_t>(piece) * rows.piece_bytes +
           static_cast<uint32_t>(row * hopper::kRowBytes + (chunk ^ row % 8) * 16);
  };
  __syncwarp();
#pragma unroll
  for (int piece = 0; piece < pieces; ++piece)
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = hopper::pack(sums[piece][8 * step + 2 * i] * factors[i % 2],
                                sums[piece][8 * step + 2 * i + 1] * factors[i % 2]);
      hopper::write_matrices(place(piece, lane % 16, 2 * step + lane / 16), words);
    }
  __syncwarp();
#pragma unroll
  for (int piece = 0; piece < pieces; ++piece)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 4 * i + lane / 8, chunk = lane % 8;
      const uint4 words = hopper::read_16_bytes(place(piece, row, chunk));
      if (row < rows.rows) *reinterpret_cast<uint4*>(rows.to + row * rows.stride + piece * 64 + chunk * 8) = words;
    }
}

}  // namespace megacpp::runtime::cuda
