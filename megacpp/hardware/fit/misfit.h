// SPDX-License-Identifier: Apache-2.0
// The error of an estimate that does not fit its hardware.
#pragma once

#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::fit {

/// The phase of such a failure.
inline constexpr const char* kPlanningPhase = "planning";

/// E1605 where the recipe's own limit of the worst chip is below what stays on it, else E2001.
base::Code misfit_code(const ChipGroup& worst);
/// How much the worst chip should have or need: "a limit of at least 507 bytes, ..", "at most the 507 bytes of this
/// chip".
std::string wanted_bytes(const ChipGroup& worst);

/// E2001 of a host that has too little for the state of its chips and the snapshot of checkpoints.
memory::OutOfMemory host_misfit_error(const FitReport& fit);

/// E2001: the worst chip with its place in mesh and slice, what its bytes are for, and the next step; or E1605.
/// Where all chips fit, of their host. Call it where estimate.fit.may_fit() is false.
memory::OutOfMemory misfit_error(const Estimate& estimate);

}  // namespace megacpp::fit
