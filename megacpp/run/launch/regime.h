// SPDX-License-Identifier: Apache-2.0
// What bounds a run, from what it measured itself, never from what was predicted for it.
#pragma once

#include <optional>

#include "megacpp/hardware/fit/regime.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/run/launch/launch.h"
#include "megacpp/run/launch/training.h"

namespace megacpp::launch {

/// Where the time of a step went by the clock of the run, which also has the host's own work between steps: what no
/// part explains is `other`. Nothing where the backend cannot tell, and without a warm step.
std::optional<runtime::StepParts> measured_parts(const Trained& trained);

fit::Regime regime_of(const Launch& launch, const Trained& trained);

}  // namespace megacpp::launch
