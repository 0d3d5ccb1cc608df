// SPDX-License-Identifier: Apache-2.0
// Hardware as `plan` and `fit` see it: with the backend that runs there, and without anything remembered.
#pragma once

#include <string>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::published {

inline fit::Assumptions planned_hardware(const std::string& name, const recipe::Recipe& recipe) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  return launch::assumptions_for(recipe, launch::slice_named(name, recipe.backend), none);
}

}  // namespace megacpp::published
