// SPDX-License-Identifier: Apache-2.0
// Names that survive a loss of power: syncing a file keeps its bytes, and only syncing its folder its name.
#pragma once

#include <filesystem>

namespace megacpp::base {

/// What was renamed or created in the folder until now is on disk. E3001 where it cannot be synced.
void sync_folder(const std::filesystem::path& path);

}  // namespace megacpp::base
