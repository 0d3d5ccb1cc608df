// SPDX-License-Identifier: Apache-2.0
// What each chip of a run has used, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/run/launch/chip_memory.h"

namespace megacpp::cli {

/// {"data": 1, "model": 0}
Json coordinates_json(int64_t chip, const ir::Mesh& mesh);

/// {"chip": 3, "coordinates": {"data": 1}, "bytes_used": .., "bytes_limit": .., "planned_peak_bytes": ..,
///  "measured_peak_bytes": .., "planned_host_bytes": .., "measured_host_bytes": ..} for each, in the order given. What
///  a backend does not know is null.
Json to_json(const std::vector<launch::ChipReport>& chips, const ir::Mesh& mesh);

}  // namespace megacpp::cli
