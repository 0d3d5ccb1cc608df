// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/throttling.h"

#include <fstream>
#include <map>

#include "megacpp/core/base/path.h"

namespace megacpp::receipt {
namespace {

std::optional<int64_t> read_count(const std::filesystem::path& file) {
  int64_t count = 0;
  return std::ifstream(file) >> count ? std::optional(count) : std::nullopt;
}

}  // namespace

std::optional<int64_t> count_throttling(const std::filesystem::path& cpus) {
  std::optional<int64_t> cores;
  std::map<int64_t, int64_t> packages;  // every core of a package has its count
  for (const std::filesystem::path& core : base::list_folder(cpus)) {
    if (const std::optional<int64_t> count = read_count(core / "thermal_throttle" / "core_throttle_count"))
      cores = cores.value_or(0) + *count;
    if (const std::optional<int64_t> count = read_count(core / "thermal_throttle" / "package_throttle_count"))
      packages[read_count(core / "topology" / "physical_package_id").value_or(0)] = *count;
  }
  for (const auto& [package, count] : packages) cores = cores.value_or(0) + count;
  return cores;
}

}  // namespace megacpp::receipt
