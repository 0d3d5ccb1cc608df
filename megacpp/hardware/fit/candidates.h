// SPDX-License-Identifier: Apache-2.0
// The layouts a recipe may take on a number of chips: every product of data, expert, context, tensor and pipeline
// degrees that the gates let pass, the levels of ZeRO that differ there, and every number of micro-steps that keeps the
// global batch. Nothing is compiled. What is left out is counted with its reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/recipe/unsupported.h"

namespace megacpp::fit {

/// Tokens of a sequence from which splitting it is a choice of its own.
inline constexpr int64_t kLongSequence = 16384;

struct LayoutChoice {
  int64_t data = 1, expert = 1, context = 1, tensor = 1, pipeline = 1;
  int64_t zero = 1;
  int64_t batch = 1;  // sequences per micro-step over all chips
  int64_t micro_steps = 1;
  std::optional<recipe::RecomputeLevel> recompute = {};  // of every letter of the model; none: the recipe's

  bool operator==(const LayoutChoice&) const = default;
};

struct Dropped {
  std::string reason;
  int64_t layouts = 0;
};

struct Candidates {
  std::vector<LayoutChoice> legal;  // tensor, pipeline, context, expert, zero, micro-steps ascending, in this order
  int64_t considered = 0;           // legal or not
  std::vector<Dropped> dropped;     // sorted by reason

  void drop(const std::string& reason, int64_t layouts = 1);
};

enum class SplitSequences { no, yes };  // whether context_parallel above 1 is a choice

/// `cannot_run` is that of the backend which runs there: such layouts are left out.
Candidates legal_layouts(const recipe::Recipe& recipe, int64_t chips, SplitSequences split,
                         const recipe::FindUnsupported& cannot_run = {});

/// What to set, and only where it differs from the recipe.
plan::Changes changes_for(const recipe::Recipe& recipe, const LayoutChoice& choice);

}  // namespace megacpp::fit
