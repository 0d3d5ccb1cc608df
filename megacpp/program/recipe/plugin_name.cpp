// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/plugin_name.h"

#include <string>
#include <string_view>

namespace megacpp::recipe {

PluginDevices plugin_devices(const std::filesystem::path& name) {
  const std::string file = name.filename().string();
  const auto mentions = [&](std::string_view word) { return file.find(word) != std::string::npos; };
  if (mentions("tpu")) return PluginDevices::tpu;
  return mentions("cuda") || mentions("gpu") ? PluginDevices::gpu : PluginDevices::cpu;
}

}  // namespace megacpp::recipe
