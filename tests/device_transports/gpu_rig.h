// SPDX-License-Identifier: Apache-2.0
// Transports of the GPUs of this machine, as tests of the contract want them.
#pragma once

#include <cstddef>

#include "megacpp/machine/cuda/peer_gpus.h"
#include "tests/support/gpu_here.h"
#include "tests/support/transports.h"

namespace megacpp::testing_support {

/// Memory of the host that the GPUs read and write at the same addresses. Kept for the next that asks for as much.
Memory pinned_memory(size_t bytes);

/// The first GPU, alone.
const runtime::cuda::Gpus& one_gpu();
/// Two, connected, where the machine has as many of one kind; else the first twice: a primary context is retained
/// twice, and the chips do all that they do on two GPUs but leave the first. Opened once, and never closed. Both empty
/// where there is no GPU.
const runtime::cuda::Gpus& peer_gpus();

/// Virtual chips on the one GPU or spread over two, which work in pinned memory.
TransportRig virtual_chips_rig();
TransportRig peer_chips_rig();

}  // namespace megacpp::testing_support
