// SPDX-License-Identifier: Apache-2.0
// The table of a stage's state, derived from its programs: every backend allocates, writes and reads by it.
#pragma once

#include <vector>

#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/compile/compiled.h"

namespace megacpp::compile {

/// One entry for each input of the programs of `stage`, sorted by name; an input that `placements` does not name is
/// whole on every chip. Only parameters and optimizer state are kept from step to step.
std::vector<StateTensor> state_table(const StagePrograms& stage, const partition::Placements& placements,
                                     const std::vector<blocks::Parameter>& parameters);

/// What one chip holds of it.
ir::TensorType local_type(const StateTensor& tensor, const ir::Mesh& mesh);

/// What a run keeps from step to step, each tensor whole and once, however many chips and stages hold it: the bytes of
/// a checkpoint, and of the snapshot in host memory that it is written from. Takes no longer for more chips.
int64_t kept_bytes(const Compiled& compiled);
/// The same by pipeline stage: a tensor that several have counts in the first, whose chips save it.
std::vector<int64_t> kept_bytes_by_stage(const Compiled& compiled);

}  // namespace megacpp::compile
