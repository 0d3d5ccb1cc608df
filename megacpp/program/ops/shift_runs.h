// SPDX-License-Identifier: Apache-2.0
// Runs of a sequence stand side by side in dimension 1 of [b, K, ..], in time order, or in the balanced order 0, K-1,
// 1, K-2, .. What the op shift_runs means is written here in nodes for runs that are whole on a chip; where they are
// split over chips its rule lets neighbours in time hand them to each other.
#pragma once

#include "megacpp/core/ir/attrs.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::ops {

/// In the balanced order every other run is of the late half of the sequence, which is then backwards in time.
struct RunHalves {
  ValueId early, late;  // [b, K / 2, ..]
};
RunHalves split_halves(Builder& b, ValueId v);
ValueId join_halves(Builder& b, const RunHalves& halves);

struct RunShift {
  bool balanced = false;
  bool reverse = false;  // from the run after it in time
};

/// From the attributes of the op.
RunShift run_shift(const ir::Attrs& attrs);

/// Where the run that is the given one in time is stored.
int64_t stored_run(int64_t time, int64_t runs, bool balanced);

/// Each run gets what the run before it in time holds; the first in time gets zero.
ValueId shift_whole_runs(Builder& b, ValueId v, RunShift shift);

}  // namespace megacpp::ops
