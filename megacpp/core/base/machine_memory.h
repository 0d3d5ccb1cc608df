// SPDX-License-Identifier: Apache-2.0
// How much memory there is, used or not, and how much a program can still have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace megacpp::base {

/// Of the machine. Asked without opening a file: a process may have no descriptor left.
int64_t machine_memory_bytes();

/// Of the container around us; nothing where it sets none. `root` is where the system's files are.
std::optional<int64_t> container_memory_limit(const std::filesystem::path& root = "/");

/// What programs here can still obtain: by the system's own estimate, and of a container's limit what its programs have
/// not taken. Files that the system keeps in memory and can drop are free.
int64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace megacpp::base
