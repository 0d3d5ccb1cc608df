// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/utc_time.h"

#include <array>
#include <chrono>
#include <ctime>

namespace megacpp::base {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace megacpp::base
