// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/shift_runs_params.h"

namespace megacpp::runtime::cuda {
namespace {

// As ops::stored_run.
__device__ int64_t stored_run(const ShiftRunsParams& p, int64_t time) {
  if (p.balanced == 0) return time;
  return time < p.count / 2 ? 2 * time : 2 * (p.count - 1 - time) + 1;
}

template <typename Unit>
__device__ void shift_runs(const ShiftRunsParams& p) {
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= p.batch * p.count * p.units) return;
  const int64_t unit = index % p.units, time = index / p.units % p.count, batch = index / p.units / p.count;
  const int64_t source = p.reverse != 0 ? time + 1 : time - 1;
  const auto at = [&](int64_t t) { return (batch * p.count + stored_run(p, t)) * p.units + unit; };
  const bool has_source = source >= 0 && source < p.count;
  reinterpret_cast<Unit*>(p.to)[at(time)] = has_source ? reinterpret_cast<const Unit*>(p.from)[at(source)] : Unit{};
}

}  // namespace

extern "C" __global__ void shift_runs_2(const __grid_constant__ ShiftRunsParams p) { shift_runs<uint16_t>(p); }
extern "C" __global__ void shift_runs_16(const __grid_constant__ ShiftRunsParams p) { shift_runs<uint4>(p); }

}  // namespace megacpp::runtime::cuda
