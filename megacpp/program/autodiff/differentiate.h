// SPDX-License-Identifier: Apache-2.0
// Reverse-mode gradients. Appends the backward pass to a forward graph, node by node in reverse, by the ops' own
// gradient rules. Blocks whose family has a recompute policy do not keep their inner values: the backward pass clones
// the forward nodes it needs just before it uses them. Forward values that the backward pass reads get the role
// `activation`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::autodiff {

/// What a block keeps for its backward pass.
/// none: recompute nothing, keep every value the gradients read.
/// selective: keep results of products and sequence mixers, recompute the cheap rest.
/// full: keep only the block's input, recompute the block.
enum class Recompute : uint8_t { none, selective, full };

struct Options {
  /// By family letter ("A"); families not listed keep everything.
  std::map<std::string, Recompute> recompute = {};
};

/// Gradients of `seeds` (value, cotangent value) with respect to `targets`, appended to `graph`. A target that does not
/// influence any seed gets a zero constant. Returned in the order of `targets`, in the dtype of the target.
std::vector<ir::ValueId> differentiate(ir::Graph& graph, const std::vector<std::pair<ir::ValueId, ir::ValueId>>& seeds,
                                       const std::vector<ir::ValueId>& targets, const Options& options);

}  // namespace megacpp::autodiff
