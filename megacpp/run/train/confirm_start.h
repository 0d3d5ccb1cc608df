// SPDX-License-Identifier: Apache-2.0
// The last look before step 0: whether what was loaded is what was planned. Only names, shapes and sizes are compared,
// no byte of state is read, so it costs nothing beside loading.
#pragma once

#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"

namespace megacpp::train {

/// Mesh and chips of the run; for every parameter on every chip that should have it the whole shape, how it and its
/// optimizer state are sharded, and the bytes the chip holds of them. A difference is an internal error (E9001)
/// that names the chip, the tensor, and both sides.
void confirm_start(const plan::Plan& plan, const compile::Compiled& compiled, const runtime::Executable& run);

}  // namespace megacpp::train
