// SPDX-License-Identifier: Apache-2.0
// SwiGLU of experts: rows as ragged_rows lists them.
#include "megacpp/runtime/cuda/kernels/swiglu_product.cuh"

namespace megacpp::runtime::cuda {
namespace {

struct ListedRows {
  template <typename Params>
  __device__ __forceinline__ static int pairs(const Params& p) {
    return p.lists.first[p.experts] / kPairSegments;
  }
  template <typename Params>
  __device__ __forceinline__ static int expert(const Params& p, const Place& place) {
    return expert_of(p.lists, p.experts, place.pair * kPairSegments);
  }
  template <typename Params>
  __device__ __forceinline__ static TileRows of_tile(const Params& p, const Place& place) {
    return listed_rows(p.lists, place);
  }
  template <typename Params>
  __device__ __forceinline__ static WarpRows of_warp(const Params& p, const Place& place) {
    return listed_warp_rows(p.lists, place);
  }
};

}  // namespace

MEGACPP_SWIGLU_KERNELS(ragged_swiglu, ListedRows)

}  // namespace megacpp::runtime::cuda
