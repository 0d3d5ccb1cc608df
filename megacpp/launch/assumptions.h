// SPDX-License-Identifier: Apache-2.0
// Hardware as commands name it, and what a plan must know of it.
#pragma once

#include <string>

#include "megacpp/collectives/transport.h"
#include "megacpp/fit/estimate.h"
#include "megacpp/hw/slice.h"
#include "megacpp/launch/users_catalog.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::launch {

/// "v6e:16x16", or "host:4" with the measured rates of this machine. E1601, E1602.
hw::Slice slice_named(const std::string& name);

/// What a launch plans for: this machine, with its free memory among the rates, or, where a plugin has devices of its
/// own, hardware.target; without one nothing limits a plan for these but the plugin itself.
hw::Slice slice_here(const recipe::Recipe& recipe, hw::HostRates rates);
/// Whether the rates of slice_here() are those of what runs the recipe.
bool are_devices_known(const recipe::Recipe& recipe);

/// Limits come from the recipe, by chip of the slice (E1003); kernels are those of the threads that a chip of it would
/// get; what was measured on the lane comes from the catalog.
fit::Assumptions assumptions_for(const recipe::Recipe& recipe, hw::Slice slice, UsersCatalog& catalog,
                                 const collectives::Transport& transport = collectives::inproc_transport());

}  // namespace megacpp::launch
