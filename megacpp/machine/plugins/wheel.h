// SPDX-License-Identifier: Apache-2.0
// Takes named files out of a Python wheel, which is a zip archive, with libarchive. Sizes and checksums are verified.
// A wheel is foreign data: one whose paths lead out of it, or whose wanted entry is no plain file, stands in it twice
// or is larger than allowed, is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace megacpp::runtime::plugins {

struct WheelRequest {
  std::filesystem::path wheel;
  std::vector<std::string> entries;          // paths in the wheel; each must be there
  std::filesystem::path folder;              // each entry becomes a file at its path below it
  int64_t largest_entry = int64_t{8} << 30;  // bytes, unpacked
  /// Told how many bytes were written so far, about once a second.
  std::function<void(int64_t bytes)> on_progress = [](int64_t) {};
};

/// E3203 for a wheel that is damaged, hostile or lacks an entry; E3001 where a file cannot be written. Files written
/// before a failure stay: the folder is the caller's to throw away.
void unpack_wheel(const WheelRequest& request);

}  // namespace megacpp::runtime::plugins
