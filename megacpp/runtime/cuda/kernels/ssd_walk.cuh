// SPDX-License-Identifier: Apache-2.0
// What the walks of ssd share: blocks that take some heads of a group through their sequence, chunk by chunk, with the
// states in registers, 16 rows of a state in each of kSsdHeadWarps warps.
#pragma once

#include "megacpp/runtime/cuda/kernels/ssd_tile.cuh"

namespace megacpp::runtime::cuda {

// A state's 16 rows of this warp.
using StateRows = float[kSsdState / 8][4];

// The state after a chunk: whole S + values^T rows, with position j of the values times factors[j].
__device__ inline void advance_state(StateRows& state, int row, float whole, const float* factors,
                                     const SharedTile<kSsdHeadDim>& values, const SharedTile<kSsdState>& rows) {
#pragma unroll
  for (int n = 0; n < kSsdState / 8; ++n)
    for (int e = 0; e < 4; ++e) state[n][e] *= whole;
#pragma unroll
  for (int k = 0; k < kSsdChunk; k += 16) {
    uint32_t a[4];
    load_left_transposed(values, row, k, a);
    scale_columns(a, factors + k);
#pragma unroll
    for (int n = 0; n < kSsdState / 16; ++n) {
      uint32_t b[4];
      load_right_transposed(rows, n * 16, k, b);
      multiply_add_pair(state[2 * n], state[2 * n + 1], a, b);
    }
  }
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
