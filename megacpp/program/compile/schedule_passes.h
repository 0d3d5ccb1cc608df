// SPDX-License-Identifier: Apache-2.0
// The passes of schedule/ and memory/ that read more of a run than one graph.
#pragma once

#include <string>

#include "megacpp/program/compile/compilation.h"

namespace megacpp::compile {

/// Adds to Compiled::fallbacks.
void decompose(Compilation& run);

/// Widens products; for a target with epilogues narrows results too, and before that what is widened as it is read.
void absorb_converts(Compilation& run);

/// Gradient accumulation; for a target with epilogues every sum of what lies in memory.
void fold(Compilation& run);

/// Into parts of as many rows as products of the target need.
void split_loss(Compilation& run);

/// For each pipeline stage one program that converts weights, placed as these are; the others read what it leaves.
void convert_once(Compilation& run);
/// Whether there will be such a program: copies are there for the whole step, what a micro-step converts for a part of
/// it.
bool would_hold_copies(const Compilation& run);

/// Inside the model the plan's gather unit says what moves together. Updates have all gradients and weights at hand:
/// these go by size, in the order in which the backward pass makes gradients.
void bucket_collectives(Compilation& run);

/// As far as arithmetic of the target is cheap.
void recompute_cheap(Compilation& run);

void overlap_collectives(Compilation& run);

/// What layout.offload names, into the host's memory: the optimizer's state of every update, what blocks keep for the
/// backward pass.
void offload(Compilation& run);

/// One plan for each pipeline stage, of assembled programs.
void plan_memory(Compilation& run);
std::string memory_text(const Compilation& run);

}  // namespace megacpp::compile
