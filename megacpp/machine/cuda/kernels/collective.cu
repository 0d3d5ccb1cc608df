// SPDX-License-Identifier: Apache-2.0
// Runs of bytes between buffers of chips, all in memory that the GPU reaches: copied, or combined in a fixed order.
#include "megacpp/machine/cuda/kernels/collective_body.h"

namespace cuda = megacpp::runtime::cuda;

extern "C" __global__ void __launch_bounds__(cuda::kCollectiveThreads)
    collective_copy(const __grid_constant__ cuda::CollectiveParams params) {
  cuda::collective::copy_as_thread(params, blockIdx.x, threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(cuda::kCollectiveThreads)
    collective_combine(const __grid_constant__ cuda::CollectiveParams params) {
  cuda::collective::combine_as_thread(params, blockIdx.x, threadIdx.x);
}
