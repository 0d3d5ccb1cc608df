// SPDX-License-Identifier: Apache-2.0
// Hardware as commands name it, and what a plan must know of it.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::launch {

/// "v6e:16x16", or "host:4" with the rates of this machine; what is reached there is what that backend reaches, or the
/// first that runs on it. E1601, E1602.
hw::Slice slice_named(const std::string& name, std::string_view backend = {});

/// Of a recipe on hardware, with the backend that runs there: the recipe's, or the first that does.
fit::Lane lane_on(const hw::Slice& slice, const recipe::Recipe& recipe);

/// Limits come from the recipe, by chip of the slice (E1003); what can run and which rates it reaches, by the backend
/// of the slice; kernels are those of the threads that a chip of `mesh` has; what was measured on the lane comes from
/// the catalog.
fit::Assumptions assumptions_for(const recipe::Recipe& recipe, runtime::FoundHardware hardware, UsersCatalog& catalog,
                                 const runtime::TargetMesh& mesh);
/// With the slice in one process.
fit::Assumptions assumptions_for(const recipe::Recipe& recipe, hw::Slice slice, UsersCatalog& catalog);

}  // namespace megacpp::launch
