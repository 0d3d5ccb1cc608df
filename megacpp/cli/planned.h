// SPDX-License-Identifier: Apache-2.0
// The recipe that would run: what it leaves to planning (train.recompute: auto, xla.loops: auto) decided as `plan`
// decides it for hardware that is named, and as a launch does for what is here, for commands that compile and do not
// run; and what they compile it for.
#pragma once

#include <optional>

#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/schedule/target.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::cli {

/// On `slice`, or where train would run it from here. What was decided is printed to stderr, with its reasons; nothing
/// is planned where nothing is left to planning.
plan::PlannedRecipe settled(const plan::PlannedRecipe& planned, const std::optional<hw::Slice>& slice,
                            const launch::CatalogChoice& catalog);

/// The same with our own collectives, whatever xla.placement says.
plan::PlannedRecipe with_our_placement(plan::PlannedRecipe planned);

/// What it is compiled for, all chips in this process. E1505 for what its backend cannot run.
schedule::Target target_of(const plan::PlannedRecipe& planned);

}  // namespace megacpp::cli
