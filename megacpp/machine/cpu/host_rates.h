// SPDX-License-Identifier: Apache-2.0
// What this machine can do, measured (measure.h) of each kind of work that steps are made of, with all threads. Takes
// about a second and is kept in the user's cache, for as long as processor, number of cores and kernels of
// products stay the same.
#pragma once

#include <filesystem>

#include "megacpp/hardware/hw/host_chip.h"

namespace megacpp::runtime::cpu {

hw::HostRates measure_host_rates();
using HostMeasurement = hw::HostRates (*)();

/// ${XDG_CACHE_HOME:-$HOME/.cache}/megacpp/host-rates.json; empty without a home folder.
std::filesystem::path host_rates_file();

/// Measures and writes the file: E3001 where that fails.
hw::HostRates renew_host_rates(const std::filesystem::path& file = host_rates_file(),
                               HostMeasurement measure = measure_host_rates);

/// From the file; measured where there is none that holds for this machine, and then kept if the file can be written.
hw::HostRates host_rates(const std::filesystem::path& file = host_rates_file(),
                         HostMeasurement measure = measure_host_rates);

}  // namespace megacpp::runtime::cpu
