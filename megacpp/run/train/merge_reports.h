// SPDX-License-Identifier: Apache-2.0
// The report of a step of a run over several processes, from those of all of them. A process knows the metrics that its
// own chips make, and what its own host did.
#pragma once

#include "megacpp/run/train/train.h"

namespace megacpp::train {

/// Adds what another process reports of the same step: metrics that are absent here; of waits, of memory and of
/// time at work the most, with the chip.
/// Times of steps stay those of `report`: all processes step together.
void merge_report(StepReport& report, const StepReport& other);

}  // namespace megacpp::train
