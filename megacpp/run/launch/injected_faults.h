// SPDX-License-Identifier: Apache-2.0
// Faults of hardware.fail_allocation in a launch. Each fires once: what it rehearses is one failure and the answer to
// it, in this launch and, by the catalog, in the next.
#pragma once

#include <cstdint>
#include <optional>

#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::launch {

/// The place of the fault in hardware.fail_allocation that this failure is; nothing for memory that really ran out.
std::optional<int64_t> fired_fault(const recipe::Hardware& hardware, const memory::OomFacts& failure);

recipe::Recipe without_fault(recipe::Recipe recipe, int64_t place);

/// Without the faults that fire before step 0 ends. Settings are remembered after step 0, so a launch that starts with
/// remembered ones starts where these were answered.
recipe::Recipe without_answered_faults(recipe::Recipe recipe);

}  // namespace megacpp::launch
