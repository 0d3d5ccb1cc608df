// SPDX-License-Identifier: Apache-2.0
// What runs, and compilations for hardware that is not here, tell the catalog: how they ended, with the prediction
// beside it, and what later predictions of the lane are corrected by.
#pragma once

#include <optional>
#include <string>

#include "megacpp/catalog/catalog.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/fit/on_paper.h"

namespace megacpp::cli {

/// The prediction of a plan, of its worst chip, as an outcome of now to be completed.
catalog::Outcome predicted_outcome(const fit::OnPaper& paper, size_t rung = 0);

struct Measured {
  std::string stage;  // "run", "compile"
  std::string chip = {};
  const memory::MemoryPlan* plan = nullptr;  // of that chip
  std::optional<int64_t> bytes = {};         // its peak
  std::optional<double> step_seconds = {};
};

/// An outcome that fits, and a sample for each number that was measured.
void remember_measured(catalog::Catalog& catalog, const fit::OnPaper& paper, const std::string& lane, size_t rung,
                       const Measured& measured);

/// What the compiler said of a step for hardware that is not here, beside our plan for it: `slice` is that hardware.
/// Of a program that fits, its peak corrects the plans of its lane.
void remember_compilation(catalog::Catalog& catalog, const recipe::Recipe& recipe, const hw::Slice& slice,
                          const XlaCompilation& compilation);

}  // namespace megacpp::cli
