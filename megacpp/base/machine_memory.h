// SPDX-License-Identifier: Apache-2.0
// How much memory there is, used or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace megacpp::base {

/// Of the machine. Asked without opening a file: a process may have no descriptor left.
int64_t machine_memory_bytes();

/// Of the container around us; nothing where it sets none. `root` is where the system's files are.
std::optional<int64_t> container_memory_limit(const std::filesystem::path& root = "/");

}  // namespace megacpp::base
