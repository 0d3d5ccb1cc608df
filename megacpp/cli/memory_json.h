// SPDX-License-Identifier: Apache-2.0
// Memory of the host as JSON, for all commands that print it.
#pragma once

#include "megacpp/cli/json.h"
#include "megacpp/hardware/fit/fit_report.h"

namespace megacpp::cli {

/// Of the host beside its chips that needs most: {"checkpoint_snapshot_bytes": .., "offloaded_bytes": ..,
/// "needed_bytes": .., "free_bytes": ..}. The snapshot is that of all hosts; free bytes may be null.
Json host_json(const fit::FitReport& fit);

}  // namespace megacpp::cli
