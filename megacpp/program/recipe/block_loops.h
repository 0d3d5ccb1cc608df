// SPDX-License-Identifier: Apache-2.0
// Whether XLA's programs run over the blocks of a model in loops: `xla.loops`, and what `auto` makes of it.
#pragma once

#include <string>

#include "megacpp/core/base/repeat.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

inline constexpr const char* kLoopsKey = "xla.loops";

/// The blocks that a loop would run over: those whose letters repeat.
base::Repeat repeated_blocks(const Model& model);
bool has_repeated_blocks(const Model& model);

/// Whether blocks that repeat are a loop. `auto`: what was measured to be better (docs/benchmarks.md). On CPUs loops
/// need less memory; on GPUs unrolled blocks need less and run 1.2 times as fast, as measured on one H200: programs of
/// several were not. On TPUs loops with selective recompute need what unrolled blocks need and are compiled in a part
/// of the time; where a plan takes unrolled ones (fit::make_estimate) its recipe says `off`.
bool has_block_loops(const Recipe& recipe);

/// "12 of 13 blocks in loops of 3", "13 blocks unrolled"
std::string block_loops_text(const Recipe& recipe);

}  // namespace megacpp::recipe
