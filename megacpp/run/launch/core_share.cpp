// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/core_share.h"

#include <algorithm>
#include <sstream>

namespace megacpp::launch {

int core_share(std::span<const CoreUser> users, size_t own) {
  double share = 0;
  for (const int core : users[own].cores) {
    const auto sharing = std::ranges::count_if(users, [&](const CoreUser& user) {
      return user.machine == users[own].machine && std::ranges::count(user.cores, core) > 0;
    });
    share += 1.0 / static_cast<double>(sharing);
  }
  constexpr double kRounding = 1e-6;  // thirds of three processes are one core
  return std::max(1, static_cast<int>(share + kRounding));
}

std::string to_text(const CoreUser& user) {
  std::ostringstream text;
  for (const int core : user.cores) text << core << ' ';
  text << '\n' << user.machine;
  return text.str();
}

CoreUser core_user_of(const std::string& text) {
  const size_t end = text.find('\n');
  CoreUser user{.machine = text.substr(end + 1), .cores = {}};
  std::istringstream cores(text.substr(0, end));
  for (int core = 0; cores >> core;) user.cores.push_back(core);
  return user;
}

}  // namespace megacpp::launch
