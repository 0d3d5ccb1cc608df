// SPDX-License-Identifier: Apache-2.0
// Seconds by the clock that never goes back.
#pragma once

#include <chrono>

namespace megacpp::base {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// That a call takes.
template <typename Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

}  // namespace megacpp::base
