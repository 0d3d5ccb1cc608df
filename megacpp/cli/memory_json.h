// SPDX-License-Identifier: Apache-2.0
// A memory plan as JSON, for all commands that print one.
#pragma once

#include "megacpp/cli/json.h"
#include "megacpp/fit/fit_report.h"
#include "megacpp/memory/memory_plan.h"

namespace megacpp::cli {

/// Bytes at the peak: [{"role": "weight", "letter": "A", "block": "block00", "bytes": ..}].
Json memory_items_json(const memory::MemoryPlan& plan);

/// The largest at the peak: [{"what": .., "scope": .., "role": .., "bytes": ..}].
Json largest_json(const memory::MemoryPlan& plan);

/// Of the host beside its chips that needs most: {"checkpoint_snapshot_bytes": .., "offloaded_bytes": ..,
/// "needed_bytes": .., "free_bytes": ..}. The snapshot is that of all hosts; free bytes may be null.
Json host_json(const fit::FitReport& fit);

}  // namespace megacpp::cli
