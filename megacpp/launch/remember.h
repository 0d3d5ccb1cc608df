// SPDX-License-Identifier: Apache-2.0
// What runs, and compilations for hardware that is not here, tell the catalog: how they ended, with the prediction
// beside it, and what later predictions of the lane are corrected by.
#pragma once

#include <optional>
#include <string>

#include "megacpp/catalog/catalog.h"
#include "megacpp/fit/estimate.h"
#include "megacpp/memory/out_of_memory.h"

namespace megacpp::launch {

struct Measured {
  std::string stage;  // "run", "compile"
  std::string chip = {};
  const memory::MemoryPlan* plan = nullptr;  // of that chip
  std::optional<int64_t> bytes = {};         // its peak
  std::optional<double> step_seconds = {};
};

/// An outcome that fits, and a sample for each number that was measured.
void remember_measured(catalog::Catalog& catalog, const fit::Estimate& estimate, const std::string& lane, size_t rung,
                       const Measured& measured);

/// An outcome that fails, with what the failure says: numbers, what the bytes were for, the largest pieces, and `note`.
void remember_failure(catalog::Catalog& catalog, const fit::Estimate& estimate, size_t rung,
                      const memory::OomFacts& facts, const std::string& note = {});

}  // namespace megacpp::launch
