// SPDX-License-Identifier: Apache-2.0
// Catalog files made from the dumps of the catalog's own tests, and everything that commands and launches do with one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace megacpp::fuzz {

/// A sound catalog of a schema version, as SQLite writes it.
const std::string& sound_catalog(int64_t version);

/// Opens, reads, writes to and forgets from the file. What is refused on the way is thrown.
void use_catalog(const std::filesystem::path& path);

}  // namespace megacpp::fuzz
