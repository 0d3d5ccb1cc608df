// SPDX-License-Identifier: Apache-2.0
// What a sweep found: for every value what its runs measured, and how it compares with the first value that ran. The
// comparisons of a sweep are as sure together as one alone would be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/sweep/sweep.h"

namespace megacpp::sweep {

struct ValueResult {
  std::string value = {};
  std::vector<std::string> runs = {};              // paths of those with a receipt
  std::vector<std::string> errors = {};            // of runs that failed, and of receipts that cannot be read
  std::optional<double> tokens_per_second = {};    // mean over runs
  std::optional<double> step_seconds = {};         //
  std::optional<int64_t> planned_peak_bytes = {};  // of the worst chip
  std::optional<int64_t> chips = {};
  std::optional<compare::Comparison> against_first = {};  // absent for the first one itself
};

/// In the order of the axis.
std::vector<ValueResult> results_of(const Sweep& sweep);

}  // namespace megacpp::sweep
