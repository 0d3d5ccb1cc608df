// SPDX-License-Identifier: Apache-2.0
// What a run has measured of itself when it ends: of the chips of one process, or of all.
#pragma once

#include <optional>
#include <vector>

#include "megacpp/machine/runtime/counters.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/run/launch/chip_memory.h"

namespace megacpp::launch {

struct RunMeasures {
  std::vector<ChipReport> chips;            // the worst first
  runtime::Counters counters;               // of all processes; executions are those of one: all run the same programs
  std::optional<runtime::StepParts> parts;  // of the chip whose steps took longest; absent: not measured
};

/// Of this process.
RunMeasures measures_of(const runtime::Executable& run);

/// Adds those of another process.
void add_measures(RunMeasures& all, const RunMeasures& other);

}  // namespace megacpp::launch
