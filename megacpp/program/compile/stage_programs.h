// SPDX-License-Identifier: Apache-2.0
// The last pass over programs: which chips run them, and in which order. A micro-batch in flight in a pipeline has a
// slot: its tokens, what arrived for it and what its backward pass needs are state named after the slot, and every
// program stands once for each slot.
#pragma once

#include "megacpp/program/compile/compilation.h"
#include "megacpp/program/plan/pipeline_schedule.h"

namespace megacpp::compile {

/// Moves the programs of a run into Compiled::stages and fills their steps and tables of state. Memory is not planned
/// yet.
void assemble_steps(Compilation& run);

/// One pipeline stage along a schedule. `simulation` is the schedule's and says who has which slot.
StagePrograms assemble_stage(const Compilation& run, const plan::PipelineSchedule& schedule,
                             const plan::Simulation& simulation, int64_t stage);

}  // namespace megacpp::compile
