// SPDX-License-Identifier: Apache-2.0
// What kind of devices a PJRT plugin is for, by its name: `xla.plugin` and files of plugins say no more.
#pragma once

#include <cstdint>
#include <filesystem>

namespace megacpp::recipe {

enum class PluginDevices : uint8_t { cpu, tpu, gpu };

/// Of the last part of the path; cpu where the name says nothing.
PluginDevices plugin_devices(const std::filesystem::path& name);

}  // namespace megacpp::recipe
