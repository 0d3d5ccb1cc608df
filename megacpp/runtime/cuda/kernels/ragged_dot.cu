// SPDX-License-Identifier: Apache-2.0
// Rows of experts times their matrices on tensor cores: bf16, sums in f32.
#include <type_traits>

#include "megacpp/runtime/cuda/kernels/ragged_tiles.cuh"

namespace megacpp::runtime::cuda {
namespace {

template <bool kTransposed>
__device__ __forceinline__ void load_tile(const RaggedDotParams& p, const Shared& shared, Ring& ring,
                                          const Place& place) {
  const int rank = static_cast<int>(rank_in_cluster());
  const int expert = expert_of(p.lists, p.experts, place.pair * kPairSegments), column = place.column * kTileColumns;
  const TileRows rows = listed_rows(p.lists, place);
  for (int k = 0; k < p.k; k += kTileDepth) {
    const Loading to = begin_stage(shared, ring, 0);
    load_left(p, to, rows, k);
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
}

template <bool kTransposed, bool kAdds>
__device__ __forceinline__ void multiply_tile(const RaggedDotParams& p, const Shared& shared, Ring& ring,
                                              const Place& place) {
  const WarpRows rows = listed_warp_rows(p.lists, place);
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_stages<false, !kTransposed>(sum, shared, ring, (p.k + kTileDepth - 1) / kTileDepth, [](int) {});
  // Sums meet their addends in f32; without addends they go out in half the pieces.
  using Piece = std::conditional_t<kAdds, float, __nv_bfloat16>;
  store_rows<Piece>(sum, shared, [&](int row, int column, const uint4& values) {
    const int n = place.column * kTileColumns + column;
    if (!rows.has(row) || n >= p.n) return;
    const int64_t at = rows.index(row) * p.n + n;
    if constexpr (kAdds)
      store_sums<__nv_bfloat16>(p, at, values);
    else
      *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(p.result) + at) = values;
  });
}

template <bool kTransposed, bool kAdds>
__device__ __forceinline__ void run(const RaggedDotParams& p) {
  const Shared shared = begin_product();
  if (threadIdx.x == 0) {
    prefetch_map(&p.a);
    prefetch_map(&p.w);
  }
  walk_tiles(
      Walk{p.lists.first[p.experts] / kPairSegments, (p.n + kTileColumns - 1) / kTileColumns},
      [&](const Place& place, Ring& ring) { load_tile<kTransposed>(p, shared, ring, place); },
      [&](const Place& place, Ring& ring) { multiply_tile<kTransposed, kAdds>(p, shared, ring, place); });
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
