// SPDX-License-Identifier: Apache-2.0
// Per-expert load as a metric: which share of a step's requests each expert of a block got, and how many it dropped.
#pragma once

#include <string>
#include <vector>

#include "megacpp/program/compile/compile.h"
#include "megacpp/run/train/run_state.h"

namespace megacpp::train {

/// One block in one step, all micro-steps together.
struct ExpertShares {
  std::string block;            // "block03"
  std::vector<double> share;    // [experts]: of the block's requests before any is dropped; they sum to one
  std::vector<double> dropped;  // [experts]: requests beyond capacity

  /// The busiest expert over the mean: 1 where all get the same, 0 without any.
  double imbalance() const;
};

/// The outputs to fetch for them: LoadOptions::fetches. Empty without experts.
std::vector<std::string> expert_fetches(const compile::Compiled& compiled);

/// Of the step that ran last, in the order of the model. Without blocks whose outputs were not fetched, or are made by
/// chips of other processes: what is not measured is absent.
std::vector<ExpertShares> read_expert_shares(const compile::Compiled& compiled, const RunState& state);

/// The block with the largest imbalance; nullptr where nothing was measured.
const ExpertShares* most_uneven(const std::vector<ExpertShares>& blocks);

}  // namespace megacpp::train
