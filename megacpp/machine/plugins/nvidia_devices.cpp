// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/nvidia_devices.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"

namespace megacpp::runtime::plugins {

std::string model_of_device(std::string_view information) {
  constexpr std::string_view kModel = "Model:", kBlank = " \t\r";
  for (size_t begin = 0; begin < information.size();) {
    const size_t end = std::min(information.find('\n', begin), information.size());
    const std::string_view line = information.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(kModel)) continue;
    const size_t first = line.find_first_not_of(kBlank, kModel.size());
    if (first == std::string_view::npos) return "";
    return std::string(line.substr(first, line.find_last_not_of(kBlank) - first + 1));
  }
  return "";
}

std::string nvidia_device_name(const std::filesystem::path& devices) {
  try {
    std::set<std::string> names;
    for (const std::filesystem::path& device : base::list_folder(devices)) {
      if (!base::exists(device / "information")) continue;
      const std::string model = model_of_device(base::read_file(device / "information"));
      names.insert(model.empty() ? "unnamed" : model);
    }
    return fmt::format("{}", fmt::join(names, ", "));
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1008) throw;
    return "";  // a container may hide them: a run goes on, planned without
  }
}

}  // namespace megacpp::runtime::plugins
