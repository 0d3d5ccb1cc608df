// SPDX-License-Identifier: Apache-2.0
// The first GPU of this machine for tests of transports, or why there is none.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "megacpp/runtime/cuda/gpu.h"
#include "tests/support/transports.h"

namespace megacpp::testing_support {

struct FoundGpu {
  std::shared_ptr<runtime::cuda::Gpu> gpu = {};
  std::string why_not = {};  // where there is none
};
/// Opened once for the whole program.
const FoundGpu& gpu_here();

/// Memory of the host that the GPU reads and writes at the same addresses. Kept for the next that asks for as much.
Memory pinned_memory(size_t bytes);

/// Virtual chips of the GPU, which work in pinned memory.
TransportRig virtual_chips_rig();

}  // namespace megacpp::testing_support
