// SPDX-License-Identifier: Apache-2.0
// Rows written into the slots that carry their labels; in place only these are touched.
#include "megacpp/machine/cuda/kernels/cache_update_params.h"

using namespace megacpp::runtime::cuda;

namespace {

template <typename Unit>
__device__ __forceinline__ void update_slot(const CacheUpdateParams& p) {
  __shared__ int32_t found;
  const int64_t slot = blockIdx.x, batch = blockIdx.y;
  const int32_t label = reinterpret_cast<const int32_t*>(p.slot_labels)[slot];
  const int32_t* row_labels = reinterpret_cast<const int32_t*>(p.row_labels);
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  for (int32_t row = static_cast<int32_t>(threadIdx.x); row < p.rows; row += static_cast<int32_t>(blockDim.x))
    if (row_labels[row] == label) found = row;  // no label stands twice among the rows
  __syncthreads();
  const int64_t at = (batch * p.slots + slot) * p.width;
  const Unit* from = found < 0 ? reinterpret_cast<const Unit*>(p.cache) + at
                               : reinterpret_cast<const Unit*>(p.written) + (batch * p.rows + found) * p.width;
  Unit* to = reinterpret_cast<Unit*>(p.to) + at;
  if (from == to) return;
  for (int64_t i = threadIdx.x; i < p.width; i += blockDim.x) to[i] = from[i];
}

}  // namespace

#define MEGACPP_CACHE_UPDATE(bytes, Unit) \
  extern "C" __global__ void cache_update_##bytes(const __grid_constant__ CacheUpdateParams p) { update_slot<Unit>(p); }

MEGACPP_CACHE_UPDATE(2, uint16_t)
MEGACPP_CACHE_UPDATE(4, uint32_t)
MEGACPP_CACHE_UPDATE(8, uint2)
MEGACPP_CACHE_UPDATE(16, uint4)
