// SPDX-License-Identifier: Apache-2.0
// Which GPUs each process of a run takes, and what NCCL must be told where several share one: the same rule for our own
// kernels and for clients of a plugin. A process takes those that the fewest before it have taken, so that processes of
// a machine divide its GPUs and share them, as a test of a run over hosts on one machine does, only where there are too
// few. NCCL refuses a GPU that two processes of one host use, so of those that share one each says that it is on a host
// of its own; messages between them then go through sockets.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/collectives/world.h"

namespace megacpp::runtime::plugins {

/// What a process says of itself.
struct GpusOfProcess {
  std::string machine;
  std::vector<std::string> gpus = {};  // that it sees, as it counts them, by UUID; empty: it cannot tell
  int64_t chips = 1;                   // GPUs that it takes: its chips, or fewer where these share them

  bool operator==(const GpusOfProcess&) const = default;
};
std::string to_text(const GpusOfProcess& process);
GpusOfProcess gpus_of_process(const std::string& text);

struct GpuShare {
  std::vector<int64_t> devices;                                     // as the process counts those it sees
  int64_t sharers = 1;                                              // processes that use the most crowded of them
  std::vector<std::pair<std::string, std::string>> variables = {};  // of NCCL, with values; none: nobody shares a GPU

  bool operator==(const GpuShare&) const = default;
};
/// By process. E1504 where one sees fewer GPUs than it has chips.
std::vector<GpuShare> gpu_shares(const std::vector<GpusOfProcess>& processes);

/// All processes together, before NCCL is first called: sets those variables in the environment, except where the user
/// has.
GpuShare share_gpus(collectives::World& world, const GpusOfProcess& own);

}  // namespace megacpp::runtime::plugins
