// SPDX-License-Identifier: Apache-2.0
#include "megacpp/receipt/throttling.h"

#include <fstream>

#include "megacpp/base/path.h"

namespace megacpp::receipt {

std::optional<int64_t> count_throttling(const std::filesystem::path& cpus) {
  std::optional<int64_t> all;
  for (const std::filesystem::path& core : base::list_folder(cpus)) {
    int64_t count = 0;
    if (std::ifstream(core / "thermal_throttle" / "core_throttle_count") >> count) all = all.value_or(0) + count;
  }
  return all;
}

}  // namespace megacpp::receipt
