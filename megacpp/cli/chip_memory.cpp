// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/chip_memory.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/runtime/fault_injection.h"

namespace megacpp::cli {
namespace {

Json known(int64_t bytes) { return bytes > 0 ? Json(bytes) : Json(); }

int64_t room(const ChipReport& chip) { return chip.memory.limit_bytes - chip.peak_bytes(); }

}  // namespace

Json coordinates_json(int64_t chip, const ir::Mesh& mesh) {
  Json coordinates = Json::object();
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    coordinates[mesh.axes()[axis].name] = mesh.coordinate(chip, static_cast<ir::AxisId>(axis));
  return coordinates;
}

int64_t ChipReport::peak_bytes() const {
  return memory.measured_peak_bytes > 0 ? memory.measured_peak_bytes : memory.planned_peak_bytes;
}

std::vector<ChipReport> worst_first(const runtime::Executable& run) {
  std::vector<ChipReport> chips;
  for (const int64_t chip : run.local_chips()) chips.push_back({chip, run.memory(chip)});
  std::stable_sort(chips.begin(), chips.end(),
                   [](const ChipReport& a, const ChipReport& b) { return room(a) < room(b); });
  return chips;
}

Json to_json(const std::vector<ChipReport>& chips, const ir::Mesh& mesh) {
  Json list = Json::array();
  for (const ChipReport& chip : chips)
    list.push_back({{"chip", chip.chip},
                    {"coordinates", coordinates_json(chip.chip, mesh)},
                    {"host", runtime::host_name()},
                    {"bytes_used", known(chip.memory.used_bytes)},
                    {"bytes_limit", known(chip.memory.limit_bytes)},
                    {"planned_peak_bytes", known(chip.memory.planned_peak_bytes)},
                    {"measured_peak_bytes", known(chip.memory.measured_peak_bytes)}});
  return list;
}

}  // namespace megacpp::cli
