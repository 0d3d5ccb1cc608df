// SPDX-License-Identifier: Apache-2.0
// The passes around partitioning: programs over global shapes become programs of one chip.
#pragma once

#include "megacpp/program/compile/compilation.h"

namespace megacpp::compile {

/// schedule/narrow_gathers on everything but updates.
void narrow_gathers(Compilation& run);

/// State is sharded in a stage's update as its micro-steps leave it. For a target that partitions by itself programs
/// stay as they are, and only the shardings of their inputs and outputs are noted. E9002 where programs of a stage do
/// not agree on where their state is.
void partition_programs(Compilation& run);

/// The program of each model stage becomes its forward and backward programs, backward in two where the schedule says.
void split_programs(Compilation& run);

}  // namespace megacpp::compile
