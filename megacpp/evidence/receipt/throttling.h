// SPDX-License-Identifier: Apache-2.0
// How often the machine slowed its cores down because they were too hot or drew too much.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace megacpp::receipt {

/// Of all cores and packages since the machine started, as Linux counts them below `cpus`; nothing where it does not,
/// as in most virtual machines.
std::optional<int64_t> count_throttling(const std::filesystem::path& cpus = "/sys/devices/system/cpu");

}  // namespace megacpp::receipt
