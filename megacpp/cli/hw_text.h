// SPDX-License-Identifier: Apache-2.0
// Chips and slices as `megacpp hw` prints them: tables for people, objects for --json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/hardware/hw/tiled_layout.h"

namespace megacpp::cli {

/// A file that is no good is a row with its error.
std::string chip_table(const std::vector<hw::ListedChip>& chips);
/// Every number with its source; of a slice also where its chips are.
std::string chip_text(const hw::Chip& chip, const std::optional<hw::Slice>& slice);
std::string rates_text(const hw::HostRates& rates);

/// Without the sources.
Json chip_json(const hw::Chip& chip);
/// {"name": "broken", "error": {"code": "E1603", "where": "broken.yaml:1", ...}} where there is no chip.
Json chip_json(const hw::ListedChip& chip);
/// [{"name": ..., "value": ..., "source": ..., "date": ...}]
Json numbers_json(const hw::Chip& chip);
Json slice_json(const hw::Slice& slice);

}  // namespace megacpp::cli
