// SPDX-License-Identifier: Apache-2.0
// Rows of experts times their matrices on tensor cores: bf16, sums in f32. Tiles are of four segments each, from
// whichever chunks they come; how many there are is read on the device.
#include <type_traits>

#include "megacpp/runtime/cuda/kernels/grouped_product.cuh"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kTileSegments = kTileRows / kSegmentRows;
constexpr int kPairSegments = kTileSegments * kClusterBlocks;

/// The expert whose list has this segment: the last that begins at or before it and is not empty.
__device__ __forceinline__ int expert_of(const RaggedDotParams& p, int segment) {
  int low = 0, high = p.experts;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (p.lists.first[middle] <= segment)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// Tiles of one block, in the order that its loading and its multiplying warps both walk.
struct Walk {
  int pairs, columns;

  __device__ __forceinline__ explicit Walk(const RaggedDotParams& p)
      : pairs(p.lists.first[p.experts] / kPairSegments), columns((p.n + kTileColumns - 1) / kTileColumns) {}
  __device__ __forceinline__ int first() const { return static_cast<int>(blockIdx.x) / kClusterBlocks; }
  __device__ __forceinline__ int stride() const { return static_cast<int>(gridDim.x) / kClusterBlocks; }
  __device__ __forceinline__ int count() const { return pairs * columns; }
  __device__ __forceinline__ static int segment(const Place& place) {
    return place.pair * kPairSegments + static_cast<int>(rank_in_cluster()) * kTileSegments;
  }
};

template <bool kTransposed>
__device__ __forceinline__ void load_tile(const RaggedDotParams& p, const Shared& shared, Ring& ring,
                                          const Place& place) {
  const int first = Walk::segment(place), rank = static_cast<int>(rank_in_cluster());
  const int expert = expert_of(p, place.pair * kPairSegments), column = place.column * kTileColumns;
  int row[kTileSegments];
  for (int i = 0; i < kTileSegments; ++i) row[i] = p.lists.segments[first + i].row;
  bool is_one_run = true;
  for (int i = 1; i < kTileSegments; ++i) is_one_run = is_one_run && row[i] == row[0] + i * kSegmentRows;
  for (int k = 0; k < p.k; k += kTileDepth) {
    const Loading to = begin_stage(shared, ring, 0);
    if (is_one_run) {
      copy_tile({&p.a, to.barrier, to.left}, k, row[0]);
    } else {
#pragma unroll
      for (int i = 0; i < kTileSegments; ++i)
        copy_tile({&p.a_segment, to.barrier, to.left + i * kSegmentRows * 128}, k, row[i]);
    }
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
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4;
  const Segment segment = p.lists.segments[Walk::segment(place) + warp / 2];
  const int first_row = warp % 2 * 16;  // of the segment
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_stages<false, !kTransposed>(sum, shared, ring, (p.k + kTileDepth - 1) / kTileDepth, [](int) {});
  // Sums meet their addends in f32; without addends they go out in half the pieces.
  using Piece = std::conditional_t<kAdds, float, __nv_bfloat16>;
  store_rows<Piece>(sum, shared, [&](int row, int column, const uint4& values) {
    const int n = place.column * kTileColumns + column;
    if (first_row + row >= segment.used || n >= p.n) return;
    const int64_t at = int64_t{segment.row + first_row + row} * p.n + n;
    if constexpr (kAdds)
      store_sums<__nv_bfloat16>(p, at, values);
    else
      *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(p.result) + at) = values;
  });
}

template <bool kTransposed, bool kAdds>
__device__ __forceinline__ void run(const RaggedDotParams& p) {
  extern __shared__ unsigned char raw[];
  const Shared shared = shared_memory(raw);
  init_stages(shared);
  const Walk walk(p);
  Ring ring;
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0) {
      prefetch_map(&p.a);
      prefetch_map(&p.w);
      for (int i = walk.first(); i < walk.count(); i += walk.stride())
        load_tile<kTransposed>(p, shared, ring, place_of(i, walk.pairs, walk.columns));
    }
  } else {
    take_registers<232>();
    for (int i = walk.first(); i < walk.count(); i += walk.stride())
      multiply_tile<kTransposed, kAdds>(p, shared, ring, place_of(i, walk.pairs, walk.columns));
  }
  __syncwarp();
  sync_cluster();  // a block's barriers are there until the other has arrived at them for the last time
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
