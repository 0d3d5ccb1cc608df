// SPDX-License-Identifier: Apache-2.0
// From forward graphs to what one optimizer step computes, still over global shapes: the backward pass, gradients added
// up over micro-steps, the update. A graph here is the whole model, or the part of it that one pipeline stage runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megacpp/program/autodiff/differentiate.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/optim/update.h"
#include "megacpp/program/plan/plan.h"

namespace megacpp::compile {

/// What the backward pass of one graph starts from and leads to, besides its weights.
struct BackwardEnds {
  std::vector<std::pair<ir::ValueId, ir::ValueId>> seeds;  // value and its cotangent
  std::vector<ir::ValueId> targets;                        // values whose gradient is wanted
};

/// What a backward pass is appended with.
struct BackwardContext {
  const std::vector<blocks::Parameter>& parameters;
  autodiff::Options options;
  const plan::Plan& plan;
};

/// What the update of one stage is built from.
struct UpdateContext {
  const std::vector<blocks::Parameter>& parameters;
  const std::vector<model::ExpertLoad>& loads;
  const plan::Plan& plan;
  optim::StageLinks links = {};
};

/// All at once: a search per parameter would grow with the square of the depth.
std::map<std::string, ir::ValueId> inputs_by_name(const ir::Graph& graph);

autodiff::Options autodiff_options(const plan::Training& training);

/// Appends the backward pass and the accumulation of the gradients of those parameters that are inputs of the graph.
/// Returns the gradients of `ends.targets`.
std::vector<ir::ValueId> append_backward(ir::Graph& graph, const BackwardEnds& ends, const BackwardContext& context);

/// Outputs of how often each expert was requested and how many requests it dropped; adds up the requests where a bias
/// is steered by them.
void append_expert_counts(ir::Graph& graph, const std::vector<model::ExpertLoad>& loads, const plan::Plan& plan);

ir::Graph build_update(const UpdateContext& context);

}  // namespace megacpp::compile
