// SPDX-License-Identifier: Apache-2.0
// Transports of the first GPU of this machine, as tests of the contract want them.
#pragma once

#include <cstddef>

#include "tests/support/gpu_here.h"
#include "tests/support/transports.h"

namespace megacpp::testing_support {

/// Memory of the host that the GPU reads and writes at the same addresses. Kept for the next that asks for as much.
Memory pinned_memory(size_t bytes);

/// Virtual chips of the GPU, which work in pinned memory.
TransportRig virtual_chips_rig();

}  // namespace megacpp::testing_support
