// SPDX-License-Identifier: Apache-2.0
// Epilogues of products of experts' rows, in stages of the ring. Behind the last stage of a tile the loading thread
// hands over some for the epilogue, with what it reads of other tensors in them. Warps put their results there, the
// tensor memory unit stores them, and a stage goes back when it has been read: the last while the next tile is
// multiplied, so that no warp waits for memory.
#pragma once

#include "megacpp/machine/cuda/kernels/grouped_product.cuh"

namespace megacpp::runtime::cuda {

/// A stage of an epilogue has three panels of kTileRows x kPanelColumns bf16, permuted as copies of tiles are. A warp
/// has its own rows of each.
inline constexpr int kPanelColumns = 64;
inline constexpr int kPanelBytes = kTileRows * kPanelColumns * 2;
inline constexpr int kWarpPanelBytes = kWarpRows * kPanelColumns * 2;
static_assert(kStageBytes == 3 * kPanelBytes && kLeftBytes == kPanelBytes);

/// The rows of a tile that one warp multiplies.
struct WarpRows {
  int first, used;  // of all rows; how many are to be stored, up to kWarpRows
};

/// The rows of this warp in the first panel of a stage; those of the next are kPanelBytes on.
__device__ __forceinline__ unsigned char* panel_rows(const Shared& shared, int stage) {
  return shared.stages + stage * kStageBytes + (threadIdx.x / 32 - 4) * kWarpPanelBytes;
}

/// Where this lane's row of 8 x 8 elements is, in the first 16 columns of a panel; of the next 16 it is ^ 32.
__device__ __forceinline__ uint32_t matrix_row(const unsigned char* rows) {
  const uint32_t lane = threadIdx.x % 32, row = lane % 16;
  return shared_address(rows) + row * 128 + (lane / 16 ^ row % 8) * 16;
}

/// Four words of 16 columns as sums have them: of eight columns after the other, rows 0 to 7 and 8 to 15.
struct Words {
  uint32_t word[4];
};

__device__ __forceinline__ Words read_words(uint32_t row) {
  Words to;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to.word[0]), "=r"(to.word[1]), "=r"(to.word[2]), "=r"(to.word[3])
               : "r"(row)
               : "memory");
  return to;
}

__device__ __forceinline__ void write_words(uint32_t row, const Words& words) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words.word[0]),
               "r"(words.word[1]), "r"(words.word[2]), "r"(words.word[3])
               : "memory");
}

__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

__device__ __forceinline__ float first_of(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float second_of(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

/// Sums of columns [64 panel + 16 quarter, 16 more), rounded.
__device__ __forceinline__ Words rounded_sums(const float (&sum)[128], int panel, int quarter) {
  Words to;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = panel * 32 + quarter * 8 + 2 * i;
    to.word[i] = bf16_pair(sum[at], sum[at + 1]);
  }
  return to;
}

/// From a panel to columns [column, column + 64) of a result of `width` columns: what is in use of this warp's rows. By
/// all lanes, behind publish_panels.
__device__ __forceinline__ void store_panel(const unsigned char* panel, const StoredRows& to, int width,
                                            const WarpRows& rows, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % 8, n = column + piece * 8;
  if (rows.used == kWarpRows) {
    if (lane == 0) store_tile(&to.warp, panel, column, rows.first);
  } else {
#pragma unroll 1
    for (int row = lane / 8; row < rows.used; row += 4)
      if (n < width)
        *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(to.values) + int64_t{rows.first + row} * width + n) =
            *reinterpret_cast<const uint4*>(panel + row * 128 + (piece ^ row % 8) * 16);
  }
  __syncwarp();
}

/// What this warp has written is seen by its other lanes and by the tensor memory unit.
__device__ __forceinline__ void publish_panels() {
  publish_stores();
  __syncwarp();
}

/// Gives back the stage of an epilogue that is still being stored, when it has been read.
__device__ __forceinline__ void settle_epilogue(const Shared& shared, Ring& ring) {
  if (ring.pending < 0) return;
  wait_tile_stores_read<0>();
  __syncwarp();
  release_stage(shared, ring.pending);
  ring.pending = -1;
}

/// Ends a stage of an epilogue: it stays until it has been read, the one before goes back.
__device__ __forceinline__ void end_epilogue_stage(const Shared& shared, Ring& ring) {
  commit_tile_stores();
  if (ring.pending >= 0) {
    wait_tile_stores_read<1>();
    __syncwarp();
    release_stage(shared, ring.pending);
  }
  ring.pending = ring.stage;
  ring.advance();
}

}  // namespace megacpp::runtime::cuda
