// SPDX-License-Identifier: Apache-2.0
// A model over several pipeline stages: the parts of the forward graph with their backward passes, and, once lowered,
// the programs of each stage's chips along a schedule. A micro-batch in flight has a slot: its tokens, what arrived for
// it and what its backward pass needs lie in state named after the slot, and every program stands once for each slot.
#pragma once

#include <optional>
#include <vector>

#include "megacpp/autodiff/differentiate.h"
#include "megacpp/compile/compile.h"
#include "megacpp/partition/cut_stages.h"
#include "megacpp/plan/pipeline_schedule.h"
#include "megacpp/plan/plan.h"

namespace megacpp::compile {

/// One part of the model, over global shapes: model stage chunk * stages + stage.
struct ModelStage {
  ir::Graph graph;           // forward, then backward
  size_t forward_nodes = 0;  // of graph
  std::vector<partition::Carry> carried_in, carried_out;
  std::vector<blocks::Parameter> parameters;  // that the graph reads
  std::vector<model::ExpertLoad> expert_loads;
};

struct CutModel {
  std::vector<ModelStage> stages;
  std::vector<partition::SharedWeight> shared;
};

/// Cuts the forward graph and appends to each part its backward pass. The loss counts `share` in the gradients: one
/// part of the micro-steps.
CutModel cut_model(const model::ForwardModel& forward, double share, const autodiff::Options& options,
                   const plan::Plan& plan);

/// The passes of one model stage, as chip programs: forward and backward, or forward and the two parts of backward.
struct LoweredStage {
  std::vector<ir::Graph> passes;
  partition::Placements inputs;   // of all passes
  partition::Placements outputs;  // of all passes
  std::vector<partition::Carry> carried_in, carried_out;
};

/// The programs of one pipeline stage and their order in a step, memory not yet planned. `update` is its last program,
/// where there is one; `simulation` is the schedule's and says who has which slot.
StagePrograms assemble_stage(const std::vector<LoweredStage>& model_stages, std::optional<ir::Graph> update,
                             const plan::PipelineSchedule& schedule, const plan::Simulation& simulation, int64_t stage);

}  // namespace megacpp::compile
