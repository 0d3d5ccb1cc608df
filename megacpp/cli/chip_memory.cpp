// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/chip_memory.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/record_to_json.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/machine/runtime/fields.h"

namespace megacpp::cli {

Json coordinates_json(int64_t chip, const ir::Mesh& mesh) {
  Json coordinates = Json::object();
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    coordinates[mesh.axes()[axis].name] = mesh.coordinate(chip, static_cast<ir::AxisId>(axis));
  return coordinates;
}

Json to_json(const std::vector<launch::ChipReport>& chips, const ir::Mesh& mesh) {
  Json list = Json::array();
  for (const launch::ChipReport& chip : chips) {
    Json& row = list.emplace_back(
        Json{{"chip", chip.chip}, {"coordinates", coordinates_json(chip.chip, mesh)}, {"host", runtime::host_name()}});
    row.update(base::record_json(chip.memory));
    row.erase("away");  // of every tier there is instead
    for (const ir::MemoryTier& tier : ir::all_tiers().subspan(1)) {
      const runtime::TierUse use = chip.memory.in(*ir::parse_tier(tier.name));
      row[fmt::format("planned_{}_bytes", tier.name)] = use.planned_bytes;
      row[fmt::format("measured_{}_bytes", tier.name)] = use.measured_bytes;
    }
  }
  return list;
}

}  // namespace megacpp::cli
