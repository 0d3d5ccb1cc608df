// SPDX-License-Identifier: Apache-2.0
// SwiGLU of experts in the epilogues of the products around it. Forward a tile of 256 columns is 128 of gate and the
// same 128 of up, so that a thread has both of an element among its sums; h is made of them while the next tile is
// multiplied. Backward the gradient of h never leaves the registers; gate and up come behind the last stage of a tile,
// and what is made of them leaves from there.

#include "megacpp/machine/cuda/kernels/ragged_swiglu_params.h"
#include "megacpp/machine/cuda/kernels/ragged_tiles.cuh"
#include "megacpp/machine/cuda/kernels/swiglu.cuh"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kGateColumns = kTileColumns / 2;
constexpr int kGatePanels = kGateColumns / kPanelColumns, kPanels = kTileColumns / kPanelColumns;
static_assert(kClusterBlocks == 2, "one block of a cluster loads gate's matrices, the other up's");

// ---- Work on a tile while the next is multiplied ----

static_assert(kScratchBytes == 2 * kWarpPanelBytes);

// This warp's scratch, when the stores from it have read it.
__device__ __forceinline__ unsigned char* free_scratch(const Shared& shared) {
  wait_tile_stores_read<0>();
  __syncwarp();
  return warp_scratch(shared);
}

// Which rows of this warp and which columns sums are of. Of nobody's until there are some.
struct HeldPlace {
  int first_row = 0;
  int column_used = 0;  // 32 times the tile's column, plus rows in use: registers are few

  __device__ __forceinline__ void set(const WarpRows& rows, const Place& place) {
    first_row = rows.first;
    column_used = place.column * 32 + rows.used;
  }
  __device__ __forceinline__ WarpRows rows() const { return {first_row, column_used % 32}; }
  __device__ __forceinline__ int column() const { return column_used / 32; }
};

// sum += the product of a tile's rows, with the kPieces pieces of the tile before beside it: piece(i) of each i.
template <bool kTransposeB, int kPieces, typename Piece>
__device__ __forceinline__ void multiply_beside(float (&sum)[128], const Shared& shared, Ring& ring, int steps,
                                                const Piece& piece) {
  if (steps >= kPieces) {
    multiply_stages_beside<false, kTransposeB, kPieces>(sum, shared, ring, steps, piece);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) piece(i);
  multiply_stages<false, kTransposeB>(sum, shared, ring, steps, [](int) {});
}

// ---- Forward ----

__device__ __forceinline__ void load_tile(const SwigluParams& p, const Shared& shared, Ring& ring, const Place& place) {
  const int rank = static_cast<int>(rank_in_cluster()), column = place.column * kGateColumns;
  const int expert = expert_of(p.lists, p.experts, place.pair * kPairSegments);
  const TileRows rows = listed_rows(p.lists, place);
  for (int k = 0; k < p.k; k += kTileDepth) {
    const Loading to = begin_stage(shared, ring, 0);
    load_rows(p.a, rows, to.barrier, to.left, k);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      copy_tile_to_all({&p.w[rank], to.barrier, to.right + (rank * 2 + i) * kBlockBytes}, column + i * 64, k, expert);
    ring.advance();
  }
}

__device__ __forceinline__ Words swiglu_words(const Words& gate, const Words& up) {
  Words h;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    h.word[i] = bf16_pair(swiglu(first_of(gate.word[i]), first_of(up.word[i])),
                          swiglu(second_of(gate.word[i]), second_of(up.word[i])));
  return h;
}

// Gate and up of the tile before, rounded; h takes gate's place.
struct HeldGates {
  Words gate[kGatePanels][4] = {}, up[kGatePanels][4] = {};
  HeldPlace place;
};
constexpr int kGatePieces = kGatePanels * 4;

// Of 16 columns. Gate and up of a panel leave with its first piece, h with its last.
__device__ __forceinline__ void finish_piece(const SwigluParams& p, const Shared& shared, HeldGates& held, int piece) {
  const int panel = piece / 4, quarter = piece % 4;
  const int column = held.place.column() * kGateColumns + panel * kPanelColumns;
  if (quarter == 0 && p.gate.values != nullptr) {
    unsigned char* const own = free_scratch(shared);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      write_words(matrix_row(own) ^ q * 32, held.gate[panel][q]);
      write_words((matrix_row(own) ^ q * 32) + kWarpPanelBytes, held.up[panel][q]);
    }
    publish_panels();
    store_panel(own, p.gate, p.n, held.place.rows(), column);
    store_panel(own + kWarpPanelBytes, p.up, p.n, held.place.rows(), column);
    commit_tile_stores();
  }
  held.gate[panel][quarter] = swiglu_words(held.gate[panel][quarter], held.up[panel][quarter]);
  if (quarter == 3) {
    unsigned char* const own = free_scratch(shared);
#pragma unroll
    for (int q = 0; q < 4; ++q) write_words(matrix_row(own) ^ q * 32, held.gate[panel][q]);
    publish_panels();
    store_panel(own, p.h, p.n, held.place.rows(), column);
    commit_tile_stores();
  }
}

__device__ __forceinline__ void multiply_tile(const SwigluParams& p, const Shared& shared, Ring& ring,
                                              const Place& place, HeldGates& held) {
  const WarpRows rows = listed_warp_rows(p.lists, place);
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_beside<true, kGatePieces>(sum, shared, ring, (p.k + kTileDepth - 1) / kTileDepth,
                                     [&](int piece) { finish_piece(p, shared, held, piece); });
#pragma unroll
  for (int panel = 0; panel < kGatePanels; ++panel)
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      held.gate[panel][quarter] = rounded_sums(sum, panel, quarter);
      held.up[panel][quarter] = rounded_sums(sum, panel + kGatePanels, quarter);
    }
  held.place.set(rows, place);
}

// ---- Backward ----

__device__ __forceinline__ void load_tile(const SwigluGradParams& p, const Shared& shared, Ring& ring,
                                          const Place& place) {
  const int rank = static_cast<int>(rank_in_cluster()), column = place.column * kTileColumns;
  const int expert = expert_of(p.lists, p.experts, place.pair * kPairSegments);
  const TileRows rows = listed_rows(p.lists, place);
  for (int k = 0; k < p.k; k += kTileDepth) {
    const Loading to = begin_stage(shared, ring, 0);
    load_rows(p.a, rows, to.barrier, to.left, k);
    copy_tile_to_all({&p.w, to.barrier, to.right + rank * 2 * kBlockBytes}, k, column + rank * 128, expert);
    ring.advance();
  }
#pragma unroll 1
  for (int panel = 0; panel < kPanels; ++panel, ring.advance()) {
    const Loading to = begin_stage(shared, ring, 0, 2 * kPanelBytes);
    load_rows(p.gate, rows, to.barrier, to.left, column + panel * kPanelColumns);
    load_rows(p.up, rows, to.barrier, to.left + kPanelBytes, column + panel * kPanelColumns);
  }
}

struct GradWords {
  Words dgate, dup, h;
};

__device__ __forceinline__ GradWords grad_words(const Words& gate, const Words& up, const Words& dh) {
  GradWords made;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const SwigluGrad first = swiglu_grad(first_of(gate.word[i]), first_of(up.word[i]), first_of(dh.word[i]));
    const SwigluGrad second = swiglu_grad(second_of(gate.word[i]), second_of(up.word[i]), second_of(dh.word[i]));
    made.dgate.word[i] = bf16_pair(first.gate, second.gate);
    made.dup.word[i] = bf16_pair(first.up, second.up);
    made.h.word[i] = bf16_pair(first.h, second.h);
  }
  return made;
}

// Results take the places of gate and up in a stage, those of h the panel behind.
template <bool kMakesH>
__device__ __forceinline__ void multiply_tile(const SwigluGradParams& p, const Shared& shared, Ring& ring,
                                              const Place& place) {
  const WarpRows rows = listed_warp_rows(p.lists, place);
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_rows<false>(sum, shared, ring, (p.k + kTileDepth - 1) / kTileDepth);
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    unsigned char* const own = panel_rows(shared, ring.stage);
    wait(shared.full + ring.stage, ring.parity);
    Words gate = read_words(matrix_row(own)), up = read_words(matrix_row(own) + kPanelBytes);
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      const uint32_t row = matrix_row(own) ^ quarter * 32, next = matrix_row(own) ^ (quarter + 1) % 4 * 32;
      const GradWords made = grad_words(gate, up, rounded_sums(sum, panel, quarter));
      if (quarter < 3) {
        gate = read_words(next);
        up = read_words(next + kPanelBytes);
      }
      write_words(row, made.dgate);
      write_words(row + kPanelBytes, made.dup);
      if constexpr (kMakesH) write_words(row + 2 * kPanelBytes, made.h);
    }
    publish_panels();
    const int column = place.column * kTileColumns + panel * kPanelColumns;
    store_panel(own, p.dgate, p.n, rows, column);
    store_panel(own + kPanelBytes, p.dup, p.n, rows, column);
    if constexpr (kMakesH) store_panel(own + 2 * kPanelBytes, p.h, p.n, rows, column);
    end_epilogue_stage(shared, ring);
  }
}

// ---- Whole kernels ----

__device__ __forceinline__ void run_swiglu(const SwigluParams& p) {
  const Shared shared = begin_product();
  if (threadIdx.x == 0) {
    prefetch_map(&p.a.tile);
    prefetch_map(&p.w[rank_in_cluster()]);
  }
  HeldGates held;
  walk_tiles(
      Walk{p.lists.first + p.experts, p.n / kGateColumns},
      [&](const Place& place, Ring& ring) { load_tile(p, shared, ring, place); },
      [&](const Place& place, Ring& ring) { multiply_tile(p, shared, ring, place, held); },
      [&](Ring&) {
#pragma unroll
        for (int piece = 0; piece < kGatePieces; ++piece) finish_piece(p, shared, held, piece);
        free_scratch(shared);
      });
}

template <bool kMakesH>
__device__ __forceinline__ void run_swiglu_grad(const SwigluGradParams& p) {
  const Shared shared = begin_product();
  if (threadIdx.x == 0) {
    prefetch_map(&p.a.tile);
    prefetch_map(&p.w);
  }
  walk_tiles(
      Walk{p.lists.first + p.experts, (p.n + kTileColumns - 1) / kTileColumns},
      [&](const Place& place, Ring& ring) { load_tile(p, shared, ring, place); },
      [&](const Place& place, Ring& ring) { multiply_tile<kMakesH>(p, shared, ring, place); },
      [&](Ring& ring) { settle_epilogue(shared, ring); });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kProductThreads, 1) ragged_swiglu(const __grid_constant__ SwigluParams p) {
  run_swiglu(p);
}

extern "C" __global__ void __launch_bounds__(kProductThreads, 1)
    ragged_swiglu_grad(const __grid_constant__ SwigluGradParams p) {
  run_swiglu_grad<false>(p);
}

extern "C" __global__ void __launch_bounds__(kProductThreads, 1)
    ragged_swiglu_grad_h(const __grid_constant__ SwigluGradParams p) {
  run_swiglu_grad<true>(p);
}

}  // namespace megacpp::runtime::cuda
