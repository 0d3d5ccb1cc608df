// SPDX-License-Identifier: Apache-2.0
// Products of the tensor-core kernels of ssd. All their matrices are 64 x 64, or pieces of that size side by side, and
// a warpgroup takes one: 16 rows in each warp.
#pragma once

#include "megacpp/machine/cuda/kernels/attention_hopper.cuh"
#include "megacpp/machine/cuda/kernels/ssd_tile.cuh"

namespace megacpp::runtime::cuda {

using hopper::Along;

static_assert(kSsdChunk == 64 && kSsdHeadDim == 64 && kSsdState == 128);
inline constexpr int kPieces = kSsdState / 64;  // of a tile of B, C or a state
inline constexpr uint32_t kPieceBytes = 64 * hopper::kRowBytes;

/// Value e of fragment n stands at 4 n + e.
using Sums = float[32];

/// The left operand of a piece's product: 16 columns a step.
using LeftOperand = uint32_t[4][4];

// ---- Where 16 of the summed dimension stand in a tile

/// Rows of the tile are rows of a left operand, or columns of a right one.
template <int kColumns>
__device__ uint64_t summed_step(const SharedTile<kColumns>& tile, int step) {
  return hopper::matrix(hopper::shared_address(tile.data) + static_cast<uint32_t>(step / 4) * kPieceBytes +
                        static_cast<uint32_t>(step % 4) * 32);
}
/// Rows of the tile run along the summed dimension.
template <int kColumns>
__device__ uint64_t across_step(const SharedTile<kColumns>& tile, int piece, int step) {
  return hopper::matrix(hopper::shared_address(tile.data) + static_cast<uint32_t>(piece) * kPieceBytes +
                        static_cast<uint32_t>(step) * 16 * hopper::kRowBytes);
}

// ---- Products. A warpgroup starts them together, between fence_products and commit_products.

/// sums += left right^T, both as they stand: [64, kDepth].
template <int kDepth>
__device__ void start_rows(Sums& sums, const SharedTile<kDepth>& left, const SharedTile<kDepth>& right) {
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step)
    hopper::multiply<Along::summed, Along::summed>(sums, summed_step(left, step), summed_step(right, step), true);
}

/// sums += left right, of [64, 64] and a piece of [64, kColumns]; a left side across stands as [summed, rows].
template <Along kLeft, int kColumns>
__device__ void start_columns(Sums& sums, const SharedTile<64>& left, const SharedTile<kColumns>& right, int piece) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
    hopper::multiply<kLeft, Along::across>(
        sums, kLeft == Along::summed ? summed_step(left, step) : across_step(left, 0, step),
        across_step(right, piece, step), true);
}

/// The same with the left side in registers.
template <int kColumns>
__device__ void start_columns(Sums& sums, const LeftOperand& left, const SharedTile<kColumns>& right, int piece) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
    hopper::multiply_add<Along::across>(sums, left[step], across_step(right, piece, step));
}

// ---- What warps do with sums: `row` is the first of their 16

/// To 64 columns of a tile.
template <int kColumns>
__device__ void store_sums(const Sums& sums, const SharedTile<kColumns>& tile, int row, int piece) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const int at = piece * 64 + n * 8 + fragment_column();
    tile.pair(row + fragment_row(), at) = to_bf16_pair(sums[4 * n], sums[4 * n + 1]);
    tile.pair(row + fragment_row() + 8, at) = to_bf16_pair(sums[4 * n + 2], sums[4 * n + 3]);
  }
}

__device__ inline void scale_sums(Sums& sums, float factor) {
#pragma unroll
  for (int i = 0; i < 32; ++i) sums[i] *= factor;
}

/// Row r times factors[r].
__device__ inline void scale_rows(Sums& sums, const float* factors, int row) {
  const float above = factors[row + fragment_row()], below = factors[row + fragment_row() + 8];
#pragma unroll
  for (int i = 0; i < 32; ++i) sums[i] *= i % 4 < 2 ? above : below;
}

}  // namespace megacpp::runtime::cuda
