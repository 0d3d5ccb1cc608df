// SPDX-License-Identifier: Apache-2.0
// SwiGLU of a dense feed-forward: all rows, of one matrix.
#include "megacpp/runtime/cuda/kernels/swiglu_product.cuh"

namespace megacpp::runtime::cuda {
namespace {

struct AllRows {
  template <typename Params>
  __device__ __forceinline__ static int pairs(const Params& p) {
    return (p.rows + kTileRows * kClusterBlocks - 1) / (kTileRows * kClusterBlocks);
  }
  template <typename Params>
  __device__ __forceinline__ static int expert(const Params&, const Place&) {
    return 0;
  }
  __device__ __forceinline__ static int first(const Place& place) {
    return (place.pair * kClusterBlocks + static_cast<int>(rank_in_cluster())) * kTileRows;
  }
  template <typename Params>
  __device__ __forceinline__ static TileRows of_tile(const Params&, const Place& place) {
    return {.row = {first(place)}, .is_one_run = true};
  }
  template <typename Params>
  __device__ __forceinline__ static WarpRows of_warp(const Params& p, const Place& place) {
    const int row = first(place) + (static_cast<int>(threadIdx.x) / 32 - 4) * 16;
    return {row, p.rows - row};
  }
};

}  // namespace

MEGACPP_SWIGLU_KERNELS(dense_swiglu, AllRows)

}  // namespace megacpp::runtime::cuda
