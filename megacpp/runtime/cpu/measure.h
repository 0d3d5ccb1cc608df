// SPDX-License-Identifier: Apache-2.0
// How fast this machine's threads are at what steps spend their time on, by the kernels that steps run: all kinds in
// turns, of which the median counts, and in a turn the mean. A step is a mean too: of cores whose neighbours are busy
// now and idle then, the shortest of several times is one that no step has.
#pragma once

#include <cstdint>

#include "megacpp/base/thread_pool.h"
#include "megacpp/hw/host_chip.h"

namespace megacpp::runtime::cpu {

inline constexpr double kLongestWait = 100;    // HostRates::product_wait
inline constexpr double kLongestLaunch = 0.1;  // seconds

/// With all threads. Takes about half a gigabyte, and up to a quarter of `memory_bytes` for what grows with their
/// number. Processor, cores, memory and date are left to the caller.
hw::HostRates measure_rates(base::ThreadPool& pool, int64_t memory_bytes);

}  // namespace megacpp::runtime::cpu
