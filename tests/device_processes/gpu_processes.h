// SPDX-License-Identifier: Apache-2.0
// Processes on the GPU of this machine, forked and joined by sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "megacpp/machine/collectives/processes/endpoint.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/cuda/gpu.h"

namespace megacpp::testing_support {

/// How a process ends: kDone, or what its body answers. An error that a body does not catch is printed and kFailed.
/// One that has stopped itself is killed when those before it have ended: kStopped.
inline constexpr int kDone = 0, kFailed = 1, kNoGpu = 77, kHung = 124, kStopped = 125;

/// A process that has been forked, with its end of the sockets. It opens the GPU; the one that forks never does.
using ForkedBody = std::function<int(int64_t process, std::unique_ptr<collectives::Endpoint> endpoint)>;

/// How they ended, by process. kNoGpu where there is no GPU or no NCCL.
std::vector<int> run_forked(int64_t processes, const ForkedBody& body);

/// What one process has that is a chip of NCCL's.
struct GpuProcess {
  runtime::cuda::Gpu& gpu;
  collectives::World& world;  // of NCCL
  int64_t chip;
};
using GpuProcessBody = std::function<int(const GpuProcess&)>;
std::vector<int> run_gpu_processes(int64_t processes, std::chrono::milliseconds wait_limit, const GpuProcessBody& body);

/// Makes one world, of chips that are a process each.
collectives::Transport socket_transport(std::unique_ptr<collectives::Endpoint> endpoint);

}  // namespace megacpp::testing_support
