// SPDX-License-Identifier: Apache-2.0
// The largest shapes that ran as a table: the same for terminals and the dashboard.
#pragma once

#include <vector>

#include "megacpp/evidence/compare/ceilings.h"
#include "megacpp/evidence/report/html.h"

namespace megacpp::report {

/// Shapes are batch x sequence of a micro-step; `times`: runs after which one is validated.
Table ceilings_table(const std::vector<compare::Ceiling>& ceilings, size_t times);

}  // namespace megacpp::report
