// SPDX-License-Identifier: Apache-2.0
// The GPUs of one process: which of them a chip is on, and that each accesses the memory of all others, which is how
// chips exchange (virtual_chips.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "megacpp/machine/cuda/gpu.h"

namespace megacpp::runtime::cuda {

using Gpus = std::vector<std::shared_ptr<Gpu>>;  // at least one

/// Index of the GPU that a chip of so many is on: neighbours share a GPU, and no GPU has more than one chip more than
/// another.
size_t gpu_of_chip(int64_t chip, int64_t chips, size_t gpus);

/// Whether they compute alike.
bool is_same_kind(const DeviceProperties& one, const DeviceProperties& two);
/// E1505 where they are of different kinds. Asked before any has a context: one that the kernels do not run on at all
/// is of another kind too, and the user may leave it out.
void require_same_kind(const std::vector<DeviceProperties>& gpus);

/// Lets every one of them read and write memory of all others. E1505 where the machine gives one no peer access to
/// another.
void connect_peers(const Gpus& gpus);

}  // namespace megacpp::runtime::cuda
