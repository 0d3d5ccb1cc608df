// SPDX-License-Identifier: Apache-2.0
// Why a collective of a compiled program is there, and the cheapest change of the layout that removes it: one table of
// rules over what is known of the node, and what the family of its block says (BlockDef::advice). Nothing here changes
// a program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/plan/resolved_layout.h"

namespace megacpp::compile {

/// Forward and backward run once per micro-step, the update once per step.
enum class Phase : uint8_t { forward, backward, update };
std::string_view phase_name(Phase phase);

struct CollectiveFacts {
  std::string_view kind;        // the op
  ops::Transfer::Kind moves{};  // what it does with what it moves
  Phase phase = Phase::forward;
  /// Axes of the layout without their steps: "model" for model.0 and model.1.
  std::vector<std::string> axes;
  std::string_view scope;
  bool requested = false;    // by an annotation; otherwise the reader's split made it necessary
  bool of_weight = false;    // it moves a weight as it is stored
  bool of_gradient = false;  // it moves a gradient to where it is added up
  bool of_matrices = false;  // it makes whole what the optimizer maps matrix by matrix, or splits it again
  bool is_scalar = false;
  /// Of a sum over gradients of weights that several chips of `model` share, there being fewer KV heads or groups than
  /// chips: the chips that each have one. 0: of no such weight.
  int64_t sharing_parts = 0;
  bool is_once = false;                      // per step: in the update, or in the only micro-step
  const blocks::BlockDef* family = nullptr;  // of the block it is in, which may know why
};

struct Removal {
  std::string purpose;               // "weights, where they are used"
  std::vector<std::string> changes;  // "layout.zero=2", as --set takes it; empty: nothing in the layout removes it
  std::string note;
};

/// No change is advised that the layout has already.
Removal removal_of(const CollectiveFacts& facts, const plan::ResolvedLayout& layout);

}  // namespace megacpp::compile
