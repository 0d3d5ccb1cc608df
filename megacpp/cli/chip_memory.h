// SPDX-License-Identifier: Apache-2.0
// What each chip of a run has used, against its plan and its limit: never an aggregate, the worst chip first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/ir/mesh.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::cli {

struct ChipReport {
  int64_t chip = 0;
  runtime::ChipMemory memory;

  int64_t peak_bytes() const;  // measured, or planned where nothing is measured
};

/// The local chips, the one with the least room below its limit first; where no limit is known, the one that used the
/// most.
std::vector<ChipReport> worst_first(const runtime::Executable& run);

/// {"data": 1, "model": 0}
Json coordinates_json(int64_t chip, const ir::Mesh& mesh);

/// {"chip": 3, "coordinates": {"data": 1}, "bytes_used": .., "bytes_limit": .., "planned_peak_bytes": ..,
///  "measured_peak_bytes": ..} for each, in the order given. What a backend does not know is null.
Json to_json(const std::vector<ChipReport>& chips, const ir::Mesh& mesh);

}  // namespace megacpp::cli
