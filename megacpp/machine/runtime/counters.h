// SPDX-License-Identifier: Apache-2.0
// What a run asked of its devices so far. A steady one adds executions and nothing else but its batch and its loss.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace megacpp::runtime {

struct Transfers {
  int64_t count = 0;
  int64_t bytes = 0;
};

struct Counters {
  std::map<std::string, int64_t> compiles;  // by cause
  double compile_seconds = 0;
  int64_t cache_hits = 0;
  int64_t executions = 0;  // one for all devices of a program
  Transfers host_to_device;
  Transfers device_to_host;
  int64_t host_syncs = 0;  // times the host waited for a device

  /// Compiled or taken from a cache.
  int64_t programs_made() const {
    int64_t made = cache_hits;
    for (const auto& [cause, count] : compiles) made += count;
    return made;
  }
};

}  // namespace megacpp::runtime
