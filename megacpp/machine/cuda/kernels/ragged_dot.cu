// SPDX-License-Identifier: Apache-2.0
// Rows of experts times their matrices on tensor cores: bf16, sums in f32.
#include "megacpp/machine/cuda/kernels/ragged_tiles.cuh"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kStagePanels = 2;  // of a stage of the epilogue
constexpr int kPanels = kTileColumns / kPanelColumns;

// Stages of the epilogue, with the addends of a tile.
template <bool kAdds>
__device__ __forceinline__ void load_addends(const RaggedDotParams& p, const Shared& shared, Ring& ring,
                                             const TileRows& rows, int column) {
#pragma unroll
  for (int panel = 0; panel < kPanels; panel += kStagePanels) {
    const Loading to = begin_stage(shared, ring, 0, kAdds ? kStagePanels * kPanelBytes : 0);
    if constexpr (kAdds) {
#pragma unroll
      for (int i = 0; i < kStagePanels; ++i)
        load_rows(p.addend, rows, to.barrier, to.left + i * kPanelBytes, column + (panel + i) * kPanelColumns);
    }
    ring.advance();
  }
}

template <bool kTransposed, bool kAdds>
__device__ __forceinline__ void load_tile(const RaggedDotParams& p, const Shared& shared, Ring& ring,
                                          const Place& place) {
  const int rank = static_cast<int>(rank_in_cluster());
  const int expert = expert_of(p.lists, p.experts, place.pair * kPairSegments), column = place.column * kTileColumns;
  const TileRows rows = listed_rows(p.lists, place);
  for (int k = 0; k < p.k; k += kTileDepth) {
    const Loading to = begin_stage(shared, ring, 0);
    load_rows(p.a, rows, to.barrier, to.left, k);
    if constexpr (kTransposed) {
      copy_tile_to_all({&p.w, to.barrier, to.right + rank * 2 * kBlockBytes}, k, column + rank * 128, expert);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int block = rank * 2 + i;
        copy_tile_to_all({&p.w, to.barrier, to.right + block * kBlockBytes}, column + block * 64, k, expert);
      }
    }
    ring.advance();
  }
  load_addends<kAdds>(p, shared, ring, rows, column);
}

// Columns [16 quarter, 16 quarter + 16) of a panel, where `row` has the addends: added in f32, rounded once.
template <bool kAdds>
__device__ __forceinline__ void finish_words(uint32_t row, const float (&sum)[128], int panel, int quarter) {
  if constexpr (kAdds) {
    const Words addend = read_words(row);
    Words to;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const s = sum + panel * 32 + quarter * 8 + 2 * i;
      to.word[i] = bf16_pair(s[0] + first_of(addend.word[i]), s[1] + second_of(addend.word[i]));
    }
    write_words(row, to);
  } else {
    write_words(row, rounded_sums(sum, panel, quarter));
  }
}

template <bool kTransposed, bool kAdds>
__device__ __forceinline__ void multiply_tile(const RaggedDotParams& p, const Shared& shared, Ring& ring,
                                              const Place& place) {
  const WarpRows rows = listed_warp_rows(p.lists, place);
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_rows<!kTransposed>(sum, shared, ring, (p.k + kTileDepth - 1) / kTileDepth);
#pragma unroll
  for (int panel = 0; panel < kPanels; panel += kStagePanels) {
    unsigned char* const own = panel_rows(shared, ring.stage);
    wait(shared.full + ring.stage, ring.parity);
#pragma unroll
    for (int i = 0; i < kStagePanels; ++i)
#pragma unroll
      for (int quarter = 0; quarter < 4; ++quarter)
        finish_words<kAdds>((matrix_row(own) ^ quarter * 32) + i * kPanelBytes, sum, panel + i, quarter);
    publish_panels();
#pragma unroll
    for (int i = 0; i < kStagePanels; ++i)
      store_panel(own + i * kPanelBytes, p.result, p.n, rows,
                  place.column * kTileColumns + (panel + i) * kPanelColumns);
    end_epilogue_stage(shared, ring);
  }
}

template <bool kTransposed, bool kAdds>
__device__ __forceinline__ void run(const RaggedDotParams& p) {
  const Shared shared = begin_product();
  if (threadIdx.x == 0) {
    prefetch_map(&p.a.tile);
    prefetch_map(&p.w);
  }
  walk_tiles(
      Walk{p.lists.first + p.experts, (p.n + kTileColumns - 1) / kTileColumns},
      [&](const Place& place, Ring& ring) { load_tile<kTransposed, kAdds>(p, shared, ring, place); },
      [&](const Place& place, Ring& ring) { multiply_tile<kTransposed, kAdds>(p, shared, ring, place); },
      [&](Ring& ring) { settle_epilogue(shared, ring); });
}

}  // namespace

#define MEGACPP_RAGGED_DOT(name, transposed, adds)                                                                   \
  extern "C" __global__ void __launch_bounds__(kProductThreads, 1) name(const __grid_constant__ RaggedDotParams p) { \
    run<transposed, adds>(p);                                                                                        \
  }
MEGACPP_RAGGED_DOT(ragged_dot, false, false)
MEGACPP_RAGGED_DOT(ragged_dot_transposed, true, false)
MEGACPP_RAGGED_DOT(ragged_dot_add, false, true)
MEGACPP_RAGGED_DOT(ragged_dot_transposed_add, true, true)

}  // namespace megacpp::runtime::cuda
