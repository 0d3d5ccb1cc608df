// SPDX-License-Identifier: Apache-2.0
// Where the catalog is: the file MEGACPP_CATALOG names, else megacpp/catalog.sqlite in the user's data folder.
#pragma once

#include <cstdint>
#include <filesystem>

namespace megacpp::catalog {

/// E3001 where the environment names no folder of the user.
std::filesystem::path default_path();

/// Whether a file system of this kind (statfs) is shared between machines. SQLite's write-ahead log needs memory that
/// all writers share, which machines do not; there its older journal is used.
bool is_network_kind(uint64_t kind);
/// The same for the file system that holds `path`, or its folder while it does not exist.
bool is_on_network(const std::filesystem::path& path);

}  // namespace megacpp::catalog
