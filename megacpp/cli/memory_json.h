// SPDX-License-Identifier: Apache-2.0
// A memory plan as JSON, for all commands that print one.
#pragma once

#include "megacpp/cli/json.h"
#include "megacpp/memory/memory_plan.h"

namespace megacpp::cli {

/// Bytes at the peak: [{"role": "weight", "letter": "A", "block": "block00", "bytes": ..}].
Json memory_items_json(const memory::MemoryPlan& plan);

/// The largest at the peak: [{"what": .., "scope": .., "role": .., "bytes": ..}].
Json largest_json(const memory::MemoryPlan& plan);

}  // namespace megacpp::cli
