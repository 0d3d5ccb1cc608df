// SPDX-License-Identifier: Apache-2.0
// How fast this machine's threads are at what steps spend their time on, by the kernels that steps run and at sizes
// that small models have: all kinds in turns, of which the median counts, and in a turn the mean. A step is a mean too:
// of cores whose neighbours are busy now and idle then, the shortest of several times is one that no step has.
#pragma once

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/hardware/hw/host_chip.h"

namespace megacpp::runtime::cpu {

/// With all threads, some megabytes for each. Processor, cores, memory and date are left to the caller.
hw::HostRates measure_rates(base::ThreadPool& pool);

}  // namespace megacpp::runtime::cpu
