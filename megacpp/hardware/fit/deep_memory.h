// SPDX-License-Identifier: Apache-2.0
// The memory of a deep model from plans of shallow ones. What is alive at a node grows along a line of its own, and the
// peak is the highest of these at the model's depth: it may be elsewhere than in the shallow ones. Nodes are compared
// by where they are: blocks by their distance from the nearer end.
#pragma once

#include <cstddef>
#include <optional>

#include "megacpp/hardware/fit/shallow_plans.h"
#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

/// Of a chip of the stage, for the target they were compiled for: totals, items and largest allocations, without state,
/// programs and offsets. State is exact, and what is alive at once on its line; where buffers are placed the gaps
/// between them take the same part of it as in the deepest of the shallow plans. Nothing where these are on no lines.
std::optional<memory::MemoryPlan> deep_memory(const ShallowPlans& shallow, size_t stage,
                                              const schedule::Target& target);

}  // namespace megacpp::fit
