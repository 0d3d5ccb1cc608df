// SPDX-License-Identifier: Apache-2.0
// Room on the disks that runs and plugins are written to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace megacpp::lineage {

/// Less holds no checkpoint of a small model, nor a plugin while it is unpacked.
inline constexpr int64_t kLeastFreeBytes = int64_t{1} << 30;

/// "12.3 GiB free"; E3001 for less than kLeastFreeBytes.
std::string room_text(const std::filesystem::path& folder, int64_t free_bytes);

}  // namespace megacpp::lineage
