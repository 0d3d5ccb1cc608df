// SPDX-License-Identifier: Apache-2.0
// The world of a run on GPUs. How its processes are joined, and which chips each has, is the matter of another
// transport's world (control): what chips exchange goes from device to device.
#pragma once

#include <chrono>
#include <memory>

#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/cuda/peer_gpus.h"

namespace megacpp::runtime::cuda {

struct DeviceWorldOptions {
  std::shared_ptr<collectives::World> control;
  Gpus gpus;  // of this process, connected (connect_peers)
  std::chrono::milliseconds wait_limit = std::chrono::minutes(10);
};

/// All processes together. All chips in this process: they are spread over its GPUs (virtual_chips.h). One chip in each
/// of several: on the first GPU, by NCCL (nccl_chips.h); the GPU outlives it. Any other deal is E1505.
std::unique_ptr<collectives::World> make_device_world(const DeviceWorldOptions& options);

}  // namespace megacpp::runtime::cuda
