// SPDX-License-Identifier: Apache-2.0
// A run on its way through the passes: what is to be compiled, and what passes have made of it so far. Every pass takes
// one and changes it in place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/program/compile/compiled.h"
#include "megacpp/program/partition/cut_stages.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::compile {

/// One part of the model: model stage chunk * stages + stage of a pipeline, or the whole of it.
struct ModelStage {
  std::vector<partition::Carry> carried_in = {}, carried_out = {};
  std::optional<ir::ValueId> loss = {};              // in the last part
  std::vector<blocks::Parameter> parameters = {};    // that it reads
  std::vector<model::ExpertLoad> expert_loads = {};  // of its experts
  size_t forward_nodes = 0;                          // where the backward pass begins, while both are one program
};

struct Compilation {
  // What is to be compiled.
  const plan::Plan& plan;
  const schedule::Target& target;
  bool trains = false;                         // the model of the plan; else `forward` alone, as `alone` says
  bool has_update = true;                      // of a training run: behind its micro-steps
  ProgramKind alone = ProgramKind::gradients;  // or inference
  std::string cotangent = {};                  // of such gradients: see GradientRequest

  // What there is so far.
  model::ForwardModel forward = model::ForwardModel();  // its graph becomes the first program
  std::vector<Program> programs = {};
  std::vector<ModelStage> parts = {};
  std::vector<partition::SharedWeight> shared = {};         // by several parts
  std::map<std::string, std::string> carry_shardings = {};  // of values carried between parts
  std::vector<partition::Placements> inputs = {};           // by pipeline stage, once partitioned
  Compiled compiled = {};

  int64_t micro_steps() const { return trains ? plan.training.micro_steps : 1; }
  bool is_inference() const { return !trains && alone == ProgramKind::inference; }
  bool is_pipeline() const { return plan.stages > 1; }
  ModelStage& part_of(const Program& program) {
    return parts[static_cast<size_t>(program.chunk * plan.stages + program.stage)];
  }
};

double flops_of(const ir::Graph& graph);

}  // namespace megacpp::compile
