// SPDX-License-Identifier: Apache-2.0
// Comparison with a committed file. golden_test --refresh rewrites the files; the diff is then reviewed like code.
#pragma once

#include <filesystem>
#include <string>

namespace megacpp {

inline const std::filesystem::path kSourceRoot = MEGACPP_SOURCE_DIR;

/// Compares with the file, or writes it.
void expect_golden(const std::filesystem::path& file, const std::string& got);

}  // namespace megacpp
