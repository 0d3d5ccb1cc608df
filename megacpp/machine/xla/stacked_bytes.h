// SPDX-License-Identifier: Apache-2.0
// What blocks leave for the backward pass, in loops over them in stacks (emit/loop_writer), counted on the program that
// XLA gets: plans are of fused programs, whose blocks keep less. The blocks that repeat are compiled once, not the
// whole depth, and others count as these in the mean.
#pragma once

#include <cstdint>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::runtime::xla {

/// Of a chip and all blocks, weights that they keep included, without padding: stacks are laid out without.
int64_t stacked_bytes(const recipe::Recipe& recipe, const schedule::Target& target);

}  // namespace megacpp::runtime::xla
