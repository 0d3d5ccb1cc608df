// SPDX-License-Identifier: Apache-2.0
// A sound catalog file, and everything that commands and launches do with one.
#pragma once

#include <filesystem>
#include <string>

namespace megacpp::fuzz {

/// The content of a file with several rows in every table.
const std::string& sound_catalog();

/// Opens, reads, writes to and forgets from the file. What is refused on the way is thrown.
void use_catalog(const std::filesystem::path& path);

}  // namespace megacpp::fuzz
