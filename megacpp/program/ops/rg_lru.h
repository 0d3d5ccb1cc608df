// SPDX-License-Identifier: Apache-2.0
// What rg_lru shares with graphs that carry its state from one run of a sequence to the next.
#pragma once

#include "megacpp/program/ops/builder.h"

namespace megacpp::ops {

/// log a of every position and channel, f32, from the gate's pre-activation [.., c] and p [c]: what rg_lru's state is
/// multiplied by at a position, were it not reset there.
ValueId rg_lru_log_decay(Builder& b, ValueId recurrence_gate, ValueId p);

}  // namespace megacpp::ops
