// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/core_share.h"

#include <algorithm>

namespace megacpp::launch {

int core_share(std::span<const CoreUser> users, size_t own) {
  double share = 0;
  for (const int64_t core : users[own].cores) {
    const auto sharing = std::ranges::count_if(users, [&](const CoreUser& user) {
      return user.machine == users[own].machine && std::ranges::count(user.cores, core) > 0;
    });
    share += 1.0 / static_cast<double>(sharing);
  }
  constexpr double kRounding = 1e-6;  // thirds of three processes are one core
  return std::max(1, static_cast<int>(share + kRounding));
}

}  // namespace megacpp::launch
