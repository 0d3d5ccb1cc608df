// SPDX-License-Identifier: Apache-2.0
// How products of experts' rows walk their tiles: of four segments each, from whichever chunks they come, two below one
// another in a cluster. How many there are is read on the device.
#pragma once

#include "megacpp/machine/cuda/kernels/row_epilogue.cuh"

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
  const int32_t* segments;  // how many, on the device
  int columns;

  __device__ __forceinline__ int first() const { return static_cast<int>(blockIdx.x) / kClusterBlocks; }
  __device__ __forceinline__ int stride() const { return static_cast<int>(gridDim.x) / kClusterBlocks; }
  __device__ __forceinline__ int pairs() const { return *segments / kPairSegments; }
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

/// Columns [column, column + 64) of a tile's rows to `to`, where `barrier` counts them.
__device__ __forceinline__ void load_rows(const LoadedRows& from, const TileRows& rows, uint64_t* barrier,
                                          unsigned char* to, int column) {
  if (rows.is_one_run) {
    copy_tile({&from.tile, barrier, to}, column, rows.row[0]);
  } else {
#pragma unroll
    for (int i = 0; i < kTileSegments; ++i)
      copy_tile({&from.segment, barrier, to + i * kSegmentRows * 128}, column, rows.row[i]);
  }
}

/// Half a segment.
__device__ __forceinline__ WarpRows listed_warp_rows(const SegmentLists& lists, const Place& place) {
  static_assert(kSegmentRows == 2 * kWarpRows);
  const int thread = static_cast<int>(threadIdx.x) - 128, half = thread / 32 % 2 * kWarpRows;
  const Segment segment = lists.segments[Walk::segment(place) + thread / 64];
  return {segment.row + half, min(max(segment.used - half, 0), kWarpRows)};
}

/// sum += the product of `steps` stages of rows.
template <bool kTransposeB>
__device__ __forceinline__ void multiply_rows(float (&sum)[128], const Shared& shared, Ring& ring, int steps) {
  constexpr int kSettled = 2;  // step by which the epilogue before has been stored; those up to it have other stages
  static_assert(kStages > kSettled + 1);
  int step = 0;
  multiply_stages<false, kTransposeB>(sum, shared, ring, steps, [&](int) {
    if (step++ == kSettled) settle_epilogue(shared, ring);
  });
  settle_epilogue(shared, ring);
}

/// One block's part of a product: `load(place, ring)` by one thread, `multiply(place, ring)` by the warps that
/// multiply, and `finish(ring)` when they have multiplied the last.
template <typename Load, typename Multiply, typename Finish>
__device__ __forceinline__ void walk_tiles(const Walk& walk, const Load& load, const Multiply& multiply,
                                           const Finish& finish) {
  Ring ring;
  // Each side reads how many tiles there are: a value of both would be spilled.
  const auto for_each_place = [&walk](const auto& body) {
    const int pairs = walk.pairs();
    for (int i = walk.first(); i < pairs * walk.columns; i += walk.stride()) body(place_of(i, pairs, walk.columns));
  };
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0) for_each_place([&](const Place& place) { load(place, ring); });
  } else {
    take_registers<232>();
    for_each_place([&](const Place& place) { multiply(place, ring); });
    finish(ring);
  }
  __syncwarp();
  sync_cluster();  // a block's barriers are there until the other has arrived at them for the last time
}

}  // namespace megacpp::runtime::cuda
