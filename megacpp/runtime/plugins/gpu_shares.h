// SPDX-License-Identifier: Apache-2.0
// Which GPUs of its machine a process of a run uses, where its clients must be told: processes that see the same GPUs
// divide them. Several may share one, as a test of a run over hosts on one machine does, if they say that they mean it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace megacpp::runtime::plugins {

/// What a process says of itself.
struct GpuUser {
  std::string machine;
  std::string visible = {};  // CUDA_VISIBLE_DEVICES; empty: all there are
  int64_t gpus = 0;          // that it sees; 0: it cannot tell, and the plugin will
  std::string host_id = {};  // NCCL_HOSTID

  bool operator==(const GpuUser&) const = default;
};
/// `variable`: the value of one of the environment; `all`: GPUs of the machine, 0 where that is not known.
GpuUser gpu_user(const std::string& machine, const std::function<std::string(const std::string& name)>& variable,
                 int64_t all);
std::string to_text(const GpuUser& user);
GpuUser gpu_user_of(const std::string& text);

struct GpuShare {
  std::vector<int64_t> devices;  // as the process counts those it sees
  int64_t sharers = 1;           // processes that use each of them
};
/// `chips`: of each process. E1504 where there are too few, with what a test would set to share them.
GpuShare gpu_share(const std::vector<GpuUser>& users, size_t process, int64_t chips);

}  // namespace megacpp::runtime::plugins
