// SPDX-License-Identifier: Apache-2.0
// The module of a whole optimizer step.
#pragma once

#include <cstdint>

#include "megacpp/program/emit/module.h"

namespace megacpp::emit {

/// One optimizer step: the micro-step once for each of `micro_steps` micro-batches, then the update. Micro-batches
/// enter stacked, [micro_steps, ...]. Outputs of the micro-step that are no state, its reports, leave stacked likewise:
/// [micro_steps, ...], and [micro_steps, blocks, ...] where blocks of a loop have one each. State that the update sets
/// to zero, or that a micro-step writes before anything reads it, as gradients, neither enters nor leaves; state of
/// blocks that a loop runs over is stacked.
struct Step {
  const ir::Graph& micro_step;
  const ir::Graph& update;
  int64_t micro_steps = 1;
  const partition::Placements& inputs;   // of both programs
  const partition::Placements& reports;  // outputs of the micro-step
};
Module write_step(const Step& step, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options = {});

}  // namespace megacpp::emit
