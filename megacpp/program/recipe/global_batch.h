// SPDX-License-Identifier: Apache-2.0
// train.global_batch, the sequences of a whole step, as the micro-steps that they make.
#pragma once

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/recipe/validate.h"

namespace megacpp::recipe {

/// Sets train.micro_steps from train.global_batch, which is 0 after. Where one of the two was given by --set and the
/// other was not, the one by --set counts. E1005 where it is no multiple of train.batch, with the nearest ones that
/// are; E1003 where train.micro_steps says otherwise in the same place.
void resolve_global_batch(Recipe& recipe, const Origins& origins);

}  // namespace megacpp::recipe
