// SPDX-License-Identifier: Apache-2.0
// What a candidate's hardware says of it. And one that runs it for a few steps on this machine, to hold what was
// planned against what is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/search.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::launch {

/// What a candidate did when it was run here, or what the compiler of its hardware made of it.
struct Confirmed {
  size_t found = 0;          // index into LayoutSearch::found
  bool is_compiled = false;  // by the hardware's own compiler, and not run: then planned and measured bytes are what a
                             // chip must hold in all, and there is no time
  std::optional<int64_t> planned_bytes = {};   // absent where the backend does not know it
  double predicted_seconds = 0;                // of a step
  std::optional<int64_t> measured_bytes = {};  // absent where it did not run, as the next
  std::optional<double> measured_seconds = {};
  std::optional<int64_t> limit_bytes = {};  // of what is compiled: what its worst chip may use
  std::string out_of_memory = {};           // class of the failure and chip: "runtime allocation, chip 1: data 1"
  std::string error = {};  // of any other failure, code and what was found: "E1101: data.text: no file"

  bool succeeded() const { return out_of_memory.empty() && error.empty(); }
};

inline constexpr int64_t kConfirmSteps = 4;  // the first warms up and is not timed

/// Weights, data and steps as in a training run on the lane's backend; nothing is kept but what the catalog is told.
/// Memory that runs out is an answer like any other, and so is every other error of the run.
Confirmed confirm_on_host(const fit::Found& candidate, const fit::Assumptions& assumptions, UsersCatalog& catalog);

}  // namespace megacpp::launch
