// SPDX-License-Identifier: Apache-2.0
// The error of a plan on paper that does not fit its hardware.
#pragma once

#include "megacpp/fit/on_paper.h"
#include "megacpp/memory/out_of_memory.h"

namespace megacpp::fit {

/// The stage of such a failure.
inline constexpr const char* kPlanningStage = "planning";

/// E2001: the worst chip with its place in mesh and slice, what its bytes are for, and the next step; E1605 where the
/// recipe's own limit is below what stays on the chip. Call it where paper.fit.fits() is false.
memory::OutOfMemory misfit_error(const OnPaper& paper);

}  // namespace megacpp::fit
