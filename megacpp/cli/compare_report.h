// SPDX-License-Identifier: Apache-2.0
// A comparison of runs for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/compare/sides.h"

namespace megacpp::cli {

/// What differs, the result if there is one, and why.
std::string runs_comparison_text(const compare::Comparison& comparison);
Json runs_comparison_json(const compare::Comparison& comparison);

/// One line for each run that could not be read, on stderr.
void print_skipped(const std::vector<compare::Skipped>& skipped);
Json skipped_json(const std::vector<compare::Skipped>& skipped);

}  // namespace megacpp::cli
