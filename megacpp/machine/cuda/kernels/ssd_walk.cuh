// SPDX-License-Identifier: Apache-2.0
// What the walks of ssd share: blocks that take some heads of a group through their sequence, chunk by chunk, with the
// states in registers of a warpgroup for each head, 16 rows of a state in each warp.
#pragma once

#include "megacpp/machine/cuda/kernels/ssd_products.cuh"

namespace megacpp::runtime::cuda {

using State = Sums[kPieces];

// The state after a chunk: whole S + values^T rows, with position j of the values times factors[j].
__device__ inline void advance_state(State& state, int row, float whole, const float* factors,
                                     const SharedTile<kSsdHeadDim>& values, const SharedTile<kSsdState>& rows) {
  LeftOperand left;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    load_left_transposed(values, row, step * 16, left[step]);
    scale_columns(left[step], factors + step * 16);
  }
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) scale_sums(state[piece], whole);
  hopper::fence_products();
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) start_columns(state[piece], left, rows, piece);
  hopper::commit_products();
  hopper::wait_for_products<0>();
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) hopper::pin(state[piece]);
}

// To its tile: this warp's rows.
__device__ inline void store_state(const State& state, const SharedTile<kSsdState>& tile, int row) {
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) store_sums(state[piece], tile, row, piece);
}

// The heads [head, head + kHeads) of a sequence.
struct HeadBlock {
  int64_t batch, head, group;
};

template <int kHeads>
__device__ HeadBlock head_block(const SsdSizes& z, int64_t index) {
  const int64_t blocks = z.heads / kHeads, head = index % blocks * kHeads;
  return {index / blocks, head, head / (z.heads / z.groups)};
}

__device__ inline int64_t chunks_of(const SsdSizes& z) { return (z.seq + kSsdChunk - 1) / kSsdChunk; }

// Rows of a chunk in x, y, dx.
__device__ inline GlobalRows head_rows(const SsdSizes& z, const FloatArray& x, const ChunkPlace& at) {
  const int64_t t = at.chunk * kSsdChunk, row = (at.batch * z.seq + t) * z.heads + at.head;
  return {reinterpret_cast<uint16_t*>(x.address) + row * kSsdHeadDim, z.heads * kSsdHeadDim, z.seq - t};
}

// Rows of a chunk in B, C.
__device__ inline GlobalRows group_rows(const SsdSizes& z, const FloatArray& b, int64_t batch, int64_t group,
                                        int64_t chunk) {
  const int64_t t = chunk * kSsdChunk, row = (batch * z.seq + t) * z.groups + group;
  return {reinterpret_cast<uint16_t*>(b.address) + row * kSsdState, z.groups * kSsdState, z.seq - t};
}

}  // namespace megacpp::runtime::cuda
