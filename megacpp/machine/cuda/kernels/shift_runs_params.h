// SPDX-License-Identifier: Apache-2.0
// Parameters of shift_runs.cu.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Runs [batch, count] of `units` each; a unit is what one access moves.
struct ShiftRunsParams {
  uint64_t from, to;
  int64_t batch, count, units;
  int64_t balanced, reverse;  // as ops::RunShift
};

}  // namespace megacpp::runtime::cuda
