// SPDX-License-Identifier: Apache-2.0
// What the forward loop over blocks leaves in stacks for the backward loop (emit/loop_writer), counted on the program
// that XLA gets: plans are of fused programs, whose blocks keep less. One iteration is compiled, not the whole depth.
#pragma once

#include <cstdint>

#include "megacpp/recipe/recipe.h"
#include "megacpp/schedule/target.h"

namespace megacpp::fit {

/// Of a chip and one iteration, weights that blocks keep included, without padding: stacks are laid out without.
int64_t stacked_bytes_of_iteration(const recipe::Recipe& recipe, const schedule::Target& target);

}  // namespace megacpp::fit
