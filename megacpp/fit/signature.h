// SPDX-License-Identifier: Apache-2.0
// What the catalog knows a launch by. One function makes it for launches, plans and searches, so that what one of them
// learns the others find.
#pragma once

#include <string>

#include "megacpp/catalog/signature.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::fit {

/// The version of this program, as the build has it.
std::string code_version();

/// `hardware` is what runs it: "v6e:16x16"; limits and faults of the recipe stand beside it, since what is learnt under
/// them holds under them alone. Keys that cannot change memory or time (seed, steps, data) leave no trace. Of the
/// layout, policy and zero stand resolved, and the other keys where they differ from their defaults: a recipe that
/// spells a default out is the same launch.
catalog::Signature signature_of(const recipe::Recipe& recipe, const std::string& hardware);

}  // namespace megacpp::fit
