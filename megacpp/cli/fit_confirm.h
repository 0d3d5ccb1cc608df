// SPDX-License-Identifier: Apache-2.0
// Runs a candidate for a few steps on this machine, to hold what was planned against what is measured.
#pragma once

#include "megacpp/cli/fit_report.h"
#include "megacpp/cli/users_catalog.h"

namespace megacpp::cli {

inline constexpr int64_t kConfirmSteps = 4;  // the first warms up and is not timed

/// Weights, data and steps as in a training run on our CPU backend; nothing is kept but what the catalog is told.
Confirmed confirm_on_host(const fit::Found& candidate, const fit::Assumptions& assumptions, UsersCatalog& catalog);

}  // namespace megacpp::cli
