// SPDX-License-Identifier: Apache-2.0
// Every collective of compiled programs: what travels, over which axes, why, and what would make it go away. Calls that
// differ in the number of their block alone are one row. Only reads what the compiler left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/program/compile/collective_rules.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"

namespace megacpp::compile {

/// Bytes one chip sends in a ring of n: all_gather (n-1) x its part; reduce_scatter and all_to_all (n-1)/n of what it
/// has; all_reduce twice that; permute, send and exchange_sum all of it; recv nothing; a start what it starts. None for
/// ops that move nothing.
std::optional<int64_t> sent_bytes(const ir::Graph& graph, const ir::Node& node);

struct CollectiveRow {
  int64_t stage = 0;  // of the pipeline; chips of a stage send alike
  Phase phase = Phase::forward;
  std::string kind;   // the op
  std::string axes;   // "data+expert"
  std::string where;  // scope: "block*.A.core"
  std::string cause;  // as the compiler noted it
  int64_t calls = 0;  // each time the phase runs
  int64_t bytes = 0;  // that a chip sends in one call
  Removal removal;
  /// Bytes of weights, gradients and optimizer state a chip holds more once removed; none where the changed layout is
  /// no legal one, or nothing is to be changed.
  std::optional<int64_t> cost_bytes;

  int64_t total_bytes() const { return calls * bytes; }
};

/// `compiled` is what compile_training made of `plan`, `changed_plan` are changes_to() the recipe behind it. In program
/// order.
std::vector<CollectiveRow> collective_report(const Compiled& compiled, const plan::Plan& plan,
                                             const plan::ChangedPlan& changed_plan);

/// What one chip of a stage sends in a step, by axes and kind.
struct CollectiveTotal {
  int64_t stage = 0;
  std::string axes;
  std::string kind;
  int64_t calls = 0;
  int64_t bytes = 0;
};
/// By stage, axes and kind, without asking for causes: as cheap as a walk through the programs.
std::vector<CollectiveTotal> collective_totals(const Compiled& compiled);

/// What a chip sends in one step; in a pipeline, one of the stage that sends most.
int64_t step_bytes(const std::vector<CollectiveRow>& rows, int64_t micro_steps);

}  // namespace megacpp::compile
