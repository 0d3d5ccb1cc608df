// SPDX-License-Identifier: Apache-2.0
// What a launch asks before step 0: what the runtime is, for its receipt, and whether it is still the one that its lock
// file documents. Drift is named and recorded, never mended: nothing is upgraded behind a run.
#pragma once

#include <filesystem>

#include "megacpp/run/lineage/lineage.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {

/// Against the lock file of the recipe, or else of the user (find_lock). A file that cannot be read, or is of another
/// machine, is said in the result and ends nothing. Without one the result has what is live, but of plugins.
Lineage check_lineage(const std::filesystem::path& recipe_file, const Subject& subject);

}  // namespace megacpp::lineage
