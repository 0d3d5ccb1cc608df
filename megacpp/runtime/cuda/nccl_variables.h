// SPDX-License-Identifier: Apache-2.0
// What NCCL must be told through its environment before it connects. It refuses a GPU that two processes of one host
// use, so of those that share one each says that it is on a host of its own; messages between them then go through
// sockets.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace megacpp::runtime::cuda {

/// A process of the run.
struct GpuUser {
  std::string gpu;   // the same text for the same GPU alone
  std::string host;  // the name of its machine
};

/// Names with their values, for one of these processes; nothing where each has a GPU of its own.
std::vector<std::pair<std::string, std::string>> nccl_variables(const std::vector<GpuUser>& users, size_t process);

}  // namespace megacpp::runtime::cuda
