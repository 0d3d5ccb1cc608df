// SPDX-License-Identifier: Apache-2.0
// A comparison of runs as tables and sentences: the same for terminals and pages.
#pragma once

#include <string>

#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/report/html.h"

namespace megacpp::report {

/// Every field of the headers that differs, and the axis that it follows from.
Table differences_table(const compare::Differences& differences);
/// "layout.tensor_parallel: 1 -> 2 (topology)"
std::string axis_text(const compare::Change& axis);

/// Parts of the step, what is in none of them, and the step.
Table time_moves_table(const compare::TimeMoves& time);
/// The part that explains the change, or why none does.
std::string cause_text(const compare::TimeMoves& time);

/// "worst chip 1.00 GiB -> 2.00 GiB (+1.00 GiB), chip 0 -> chip 3"
std::string worst_chip_text(const compare::MemoryMoves& moves);
Table role_moves_table(const compare::MemoryMoves& moves);
Table chip_moves_table(const compare::MemoryMoves& moves);

/// Whether the effect has a direction.
bool is_found(const stats::Effect& effect);

}  // namespace megacpp::report
