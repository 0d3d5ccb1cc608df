// SPDX-License-Identifier: Apache-2.0
// What runs, and compilations for hardware that is not here, tell the catalog: how they ended, with the prediction
// beside it, and what later predictions of the lane are corrected by.
#pragma once

#include <optional>
#include <string>

#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/run/launch/chip_memory.h"

namespace megacpp::launch {

struct Measured {
  std::string phase;  // "run", "compile"
  std::string chip = {};
  const memory::MemoryPlan* plan = nullptr;  // of that chip
  std::optional<int64_t> bytes = {};         // its peak
  std::optional<double> step_seconds = {};
};

/// Of the worst chip of a run. Bytes are absent where the backend does not measure them.
Measured measured_of(std::string phase, const fit::Estimate& estimate, const ChipReport& worst,
                     std::optional<double> step_seconds);

/// An outcome that fits, and a sample for each number that was measured.
void remember_measured(catalog::Catalog& catalog, const fit::Estimate& estimate, size_t rung, const Measured& measured);

/// An outcome that fails, with its whole report.
void remember_failure(catalog::Catalog& catalog, const fit::Estimate& estimate, size_t rung,
                      const catalog::OomReport& report);

}  // namespace megacpp::launch
