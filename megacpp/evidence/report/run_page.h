// SPDX-License-Identifier: Apache-2.0
// Runs as one HTML page: loss, throughput, parts of a step, and of each run its answers, memory, collectives, ladder,
// experts and receipt. Several runs stand side by side, and a winner is named only where compare/ names one.
#pragma once

#include <string>
#include <vector>

#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/report/run_record.h"

namespace megacpp::report {

/// Each kind of run against the first kind, repeats together; two runs are two kinds, even if they are alike. Nothing
/// for less than two receipts, and for repeats of one launch alone. Of more runs than a page shows, the first ones.
std::vector<compare::Comparison> comparisons_of(const std::vector<RunRecord>& runs);

/// The page is bounded: of more runs than kMostCurves (line_chart.h) all are listed and the first ones shown.
std::string run_page(const std::vector<RunRecord>& runs, const std::vector<compare::Comparison>& comparisons);

}  // namespace megacpp::report
