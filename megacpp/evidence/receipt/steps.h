// SPDX-License-Identifier: Apache-2.0
// From the reports of logged steps to the figures of a receipt: which steps are cold, which warm up, which are steady,
// how much the steady ones spread. The first report is cold; the warm-up ends with the first log after a tenth of the
// requested steps, at least 2 and at most 50: fixed before the run, so that no run chooses its own best steps. The
// same for a run that ended in good order and for one whose log is all that is left.
#pragma once

#include <vector>

#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/run/train/train.h"

namespace megacpp::receipt {

/// Samples that are kept, at most: where there are more, neighbours become one.
inline constexpr size_t kMostSamples = 4096;

/// Of `ending`, first_step and requested_steps are set; `mfu` has what is known before the steps. `reports` of steps
/// before first_step are another run's and left out.
void add_steps(Receipt& receipt, std::vector<train::StepReport> reports);

/// Figures of steps whose log has no times, or only zeros, are not known: neither rates nor spreads come of them.
void forget_unknown_times(Times& times);

/// How many steps to request so that as many are steady, with a log at every step.
int64_t steps_with_steady(int64_t steady);

/// Of at least one sample.
Spread spread_of(std::vector<double> samples);

}  // namespace megacpp::receipt
