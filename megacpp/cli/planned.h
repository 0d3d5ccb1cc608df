// SPDX-License-Identifier: Apache-2.0
// The recipe that would run: what it leaves to planning (train.recompute: auto, xla.loops: auto) decided as `plan`
// decides it for hardware that is named, and as a launch does for what is here, for commands that compile and do not
// run.
#pragma once

#include <optional>

#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::cli {

/// On `slice`, or where train would run it from here. What was decided is printed to stderr, with its reasons; nothing
/// is planned where nothing is left to planning.
recipe::Recipe planned(const recipe::Recipe& recipe, const std::optional<hw::Slice>& slice,
                       const launch::CatalogChoice& catalog);

}  // namespace megacpp::cli
