// SPDX-License-Identifier: Apache-2.0
// How products of experts' rows walk their tiles: of four segments each, from whichever chunks they come, two below one
// another in a cluster. How many there are is read on the device.
#pragma once

#include "megacpp/runtime/cuda/kernels/grouped_product.cuh"

namespace megacpp::runtime::cuda {

inline constexpr int kTileSegments = kTileRows / kSegmentRows;
inline constexpr int kPairSegments = kTileSegments * kClusterBlocks;

/// The expert whose list has this segment: the last that begins at or before it and is not empty.
__device__ __forceinline__ int expert_of(const SegmentLists& lists, int experts, int segment) {
  int low = 0, high = experts;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (lists.first[middle] <= segment)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// Tiles of one block, in the order that its loading and its multiplying warps both walk.
struct Walk {
  int pairs, columns;

  __device__ __forceinline__ int first() const { return static_cast<int>(blockIdx.x) / kClusterBlocks; }
  __device__ __forceinline__ int stride() const { return static_cast<int>(gridDim.x) / kClusterBlocks; }
  __device__ __forceinline__ int count() const { return pairs * columns; }
  __device__ __forceinline__ static int segment(const Place& place) {
    return place.pair * kPairSegments + static_cast<int>(rank_in_cluster()) * kTileSegments;
  }
};

/// Where the rows of a tile are: one behind the other, or by segments.
struct TileRows {
  int row[kTileSegments];
  bool is_one_run = true;
};

__device__ __forceinline__ TileRows listed_rows(const SegmentLists& lists, const Place& place) {
  TileRows rows;
  const int first = Walk::segment(place);
  for (int i = 0; i < kTileSegments; ++i) rows.row[i] = lists.segments[first + i].row;
  for (int i = 1; i < kTileSegments; ++i)
    rows.is_one_run = rows.is_one_run && rows.row[i] == rows.row[0] + i * kSegmentRows;
  return rows;
}

/// The left side of a stage, whose params have boxes of a tile's and of a segment's rows: columns [k, k + kTileDepth).
template <typename Params>
__device__ __forceinline__ void load_left(const Params& p, const Loading& to, const TileRows& rows, int k) {
  if (rows.is_one_run) {
    copy_tile({&p.a, to.barrier, to.left}, k, rows.row[0]);
  } else {
#pragma unroll
    for (int i = 0; i < kTileSegments; ++i)
      copy_tile({&p.a_segment, to.barrier, to.left + i * kSegmentRows * 128}, k, rows.row[i]);
  }
}

/// The 16 rows of a tile that one warp multiplies.
struct WarpRows {
  int first, used;  // of all rows; how many are to be stored

  __device__ __forceinline__ bool has(int row) const { return row < used; }
  __device__ __forceinline__ int64_t index(int row) const { return int64_t{first + row}; }
};

/// Half a segment.
__device__ __forceinline__ WarpRows listed_warp_rows(const SegmentLists& lists, const Place& place) {
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4, half = warp % 2 * 16;
  const Segment segment = lists.segments[Walk::segment(place) + warp / 2];
  return {segment.row + half, segment.used - half};
}

/// One block's part of a product: `load(place, ring)` by one thread, `multiply(place, ring)` by the warps that
/// multiply.
template <typename Load, typename Multiply>
__device__ __forceinline__ void walk_tiles(const Walk& walk, const Load& load, const Multiply& multiply) {
  Ring ring;
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0)
      for (int i = walk.first(); i < walk.count(); i += walk.stride())
        load(place_of(i, walk.pairs, walk.columns), ring);
  } else {
    take_registers<232>();
    for (int i = walk.first(); i < walk.count(); i += walk.stride())
      multiply(place_of(i, walk.pairs, walk.columns), ring);
  }
  __syncwarp();
  sync_cluster();  // a block's barriers are there until the other has arrived at them for the last time
}

}  // namespace megacpp::runtime::cuda
