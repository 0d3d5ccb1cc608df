// SPDX-License-Identifier: Apache-2.0
// What a plugin is, as signatures tell plugins apart: its name, version and content, with the driver below it. Nothing
// is loaded.
#pragma once

#include <filesystem>
#include <string>

#include "megacpp/machine/plugins/plugin_places.h"

namespace megacpp::runtime::plugins {

/// "plugin cpu 0.6.1 (build 77aa12)", of cuda with ", driver 550.54". One that is not here is said to be missing, since
/// plans are made for machines that have it. `named` is the path the user gave, empty for none.
std::string plugin_identity(PluginKind kind, const std::filesystem::path& named = {});

/// The GNU build id of a library, or a hash of its bytes where the linker left none. Hex digits.
std::string library_id(const std::filesystem::path& file);

/// Of all bytes of a file, which takes a second for a large one. Hex digits.
std::string library_hash(const std::filesystem::path& file);

/// "550.54.15" from the text of /proc/driver/nvidia/version; empty where it names none.
std::string driver_version(const std::string& text);

}  // namespace megacpp::runtime::plugins
