// SPDX-License-Identifier: Apache-2.0
// The passes that make what one optimizer step computes, still over global shapes: the forward graph, its cut into
// pipeline stages, backward passes, updates.
#pragma once

#include "megacpp/program/compile/compilation.h"

namespace megacpp::compile {

/// Leaves the forward graph as the only program, and the whole model as the only part.
void build_model(Compilation& run);

/// Leaves one program and one part for each model stage. How a carried value is sharded is decided by the part that
/// makes it.
void cut_model(Compilation& run);

/// The loss counts one part of the micro-steps in the gradients. Cotangents of carried-out values are inputs, those of
/// carried-in values outputs "cotangent.<name>", sharded as the values are.
void append_backward_passes(Compilation& run);

/// Appends one update for each pipeline stage.
void build_updates(Compilation& run);

}  // namespace megacpp::compile
