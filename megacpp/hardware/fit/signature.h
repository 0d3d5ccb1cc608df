// SPDX-License-Identifier: Apache-2.0
// What the catalog knows a launch by. One function makes it for launches, plans and searches, so that what one of them
// learns the others find.
#pragma once

#include <span>
#include <string>

#include "megacpp/hardware/catalog/signature.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

/// "policy=spmd data_parallel=2 zero=1": policy and zero resolved, other keys where they differ from their defaults.
std::string layout_text(const recipe::Recipe& recipe);

/// "nam52-tiny (pattern AEME, depth 4, hidden 128), batch 8, sequence 64, policy=spmd zero=1": what errors name.
std::string subject_text(const recipe::Recipe& recipe);

/// `hardware` is what runs it: "v6e:16x16"; limits and faults of the recipe stand beside it, since what is learnt under
/// them holds under them alone. Keys that cannot change memory or time (seed, steps, data) leave no trace. Of the
/// layout, policy and zero stand resolved, and the other keys where they differ from their defaults: a recipe that
/// spells a default out is the same launch. `build` is what runs it, `backend_features` words of the backend's own
/// settings: "placement=xla".
catalog::Signature signature_of(const recipe::Recipe& recipe, const std::string& hardware,
                                const catalog::Build& build = {}, std::span<const std::string> backend_features = {});

}  // namespace megacpp::fit
