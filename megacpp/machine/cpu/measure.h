// SPDX-License-Identifier: Apache-2.0
// Rates of this machine's threads at the work of steps, measured with the kernels that steps run and at sizes of small
// models. All kinds take turns: the median over turns counts, and in a turn the mean. A step is a mean too: neighbours
// of its cores are busy now and idle then, so no step is as fast as the shortest of several times.
#pragma once

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/hardware/hw/host_chip.h"

namespace megacpp::runtime::cpu {

/// With all threads, some megabytes for each. Processor, cores, memory and date are left to the caller.
hw::HostRates measure_rates(base::ThreadPool& pool);

}  // namespace megacpp::runtime::cpu
