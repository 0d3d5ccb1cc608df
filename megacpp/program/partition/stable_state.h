// SPDX-License-Identifier: Apache-2.0
// The gate "a plan is stable across steps": a step leaves every state tensor placed as it found it, so that the next
// step can run the same programs.
#pragma once

#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/partition/partition.h"

namespace megacpp::partition {

/// `program` is of one chip or, for a backend that partitions by itself, over whole tensors. E9002 where it reads state
/// in another placement or type than the other programs of its stage so far (`known`), whichever part of the model they
/// run, or where an output that replaces state (Output::donated) is not placed as the state it replaces.
void check_stable_state(const Partitioned& program, const Placements& known, const ir::Mesh& mesh);

}  // namespace megacpp::partition
