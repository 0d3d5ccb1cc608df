// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/nccl_variables.h"

#include <algorithm>
#include <set>

namespace megacpp::runtime::cuda {

// The first users of the GPUs of a machine are what NCCL takes them for, and so reach each other directly; so do the
// second ones, and so on.
std::vector<std::pair<std::string, std::string>> nccl_variables(const std::vector<GpuUser>& users, size_t process) {
  std::set<std::string> gpus, hosts;
  for (const GpuUser& user : users) {
    gpus.insert(user.gpu);
    hosts.insert(user.host);
  }
  if (gpus.size() == users.size()) return {};
  const GpuUser& own = users[process];
  const auto earlier = std::count_if(users.begin(), users.begin() + static_cast<std::ptrdiff_t>(process),
                                     [&own](const GpuUser& user) { return user.gpu == own.gpu; });
  std::vector<std::pair<std::string, std::string>> variables;
  if (earlier > 0) variables.emplace_back("NCCL_HOSTID", own.host + "-" + std::to_string(earlier));
  if (hosts.size() == 1) variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  return variables;
}

}  // namespace megacpp::runtime::cuda
