// SPDX-License-Identifier: Apache-2.0
// What each chip of a run has used, against its plan and its limit: never an aggregate, the worst chip first.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/machine/runtime/executable.h"

namespace megacpp::launch {

struct ChipReport {
  int64_t chip = 0;
  runtime::ChipMemory memory;

  int64_t peak_bytes() const;  // measured, or planned where nothing is measured
};

/// The one with the fewest free bytes below its limit first; without a known limit, the one that used the most. Of two
/// alike the one with the lower number.
void put_worst_first(std::vector<ChipReport>& chips);
/// The local chips of a run.
std::vector<ChipReport> worst_first(const runtime::Executable& run);

}  // namespace megacpp::launch
