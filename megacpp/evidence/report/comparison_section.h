// SPDX-License-Identifier: Apache-2.0
// The part of a page that says what differs between the runs of a comparison, and which parts of time and memory moved.
#pragma once

#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/report/html.h"

namespace megacpp::report {

void add_moves(Page& page, const compare::Comparison& comparison);

}  // namespace megacpp::report
