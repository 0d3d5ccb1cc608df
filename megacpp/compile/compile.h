// SPDX-License-Identifier: Apache-2.0
// The whole compiler, one stage after the other. Takes a recipe and what the backend can do; leaves the scheduled
// programs and the memory plan of every chip. Each stage's result can be dumped as text and is verified.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/ir/graph.h"
#include "megacpp/ir/mesh.h"
#include "megacpp/memory/memory_plan.h"
#include "megacpp/model/model.h"
#include "megacpp/partition/partition.h"
#include "megacpp/plan/plan.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/schedule/decompose.h"
#include "megacpp/schedule/target.h"

namespace megacpp::compile {

struct PassTime {
  std::string name;  // "01-model", ...
  double seconds = 0;
  size_t nodes = 0;  // of all programs after the stage
};

/// One program of a chip's step.
struct Action {
  size_t program = 0;        // index into StagePrograms::programs
  int64_t micro = 0;         // micro-batch it works on; the update: the last
  std::string prefix = {};   // of the names of this micro-batch's state: "" or, in a pipeline, "chunk0.slot1."
  bool reads_batch = false;  // whether inputs <prefix>batch.* must hold the micro-batch
  bool reports = false;      // whether its outputs hold the loss
  bool updates = false;      // whether it is the update, whose outputs hold the gradient norm
};

/// What the chips of one pipeline stage run; without a pipeline, what all chips run.
struct StagePrograms {
  std::vector<ir::Graph> programs;             // of one chip, scheduled
  partition::Placements inputs;                // how state and batch lie on the mesh, by name
  std::vector<partition::Placements> outputs;  // the same for each program's outputs
  memory::MemoryPlan memory;
  std::vector<Action> step;  // one optimizer step, in order
  double flops = 0;          // of one chip in one step without the update, recompute included
};

struct Compiled {
  ir::Mesh mesh;                      // one chip without axes
  std::vector<StagePrograms> stages;  // of the pipeline; one without
  /// For each run of tokens a sequence is stored in, its place in time; one run: time order.
  std::vector<int64_t> time_order = {0};
  std::vector<blocks::Parameter> parameters;
  std::vector<model::ExpertLoad> expert_loads;
  std::vector<schedule::Fallback> fallbacks;
  std::vector<PassTime> passes;
  /// Of the whole model in one step: forward once and backward twice that, nothing computed again. What MFU counts.
  double model_flops = 0;

  size_t stage_of(int64_t chip) const;  // index into stages
  /// Those that the chips of a stage hold, in the order of the model.
  std::vector<blocks::Parameter> parameters_of(size_t stage) const;
  const StagePrograms& programs_of(int64_t chip) const { return stages[stage_of(chip)]; }
  /// A chip that runs the last stage, where the loss is.
  int64_t reporting_chip() const;
  /// The stage whose chips need the most memory.
  const StagePrograms& largest() const;
  double flops_per_step() const;  // of all chips
};

/// Indices into StagePrograms::programs without a pipeline. In a pipeline the update is the last program.
enum Program : size_t { kMicroStep = 0, kUpdate = 1 };

/// Writes every stage as text; the files are named after the stages ("01-model.ir" ... "10-memory.txt").
struct Dump {
  std::filesystem::path folder;
};

/// A training run: micro-steps (forward, backward, gradient accumulation) and update. `plan` was made of `recipe`; left
/// out, it is made here.
Compiled compile_training(const recipe::Recipe& recipe, const plan::Plan& plan, const schedule::Target& target,
                          const std::optional<Dump>& dump = std::nullopt);
Compiled compile_training(const recipe::Recipe& recipe, const schedule::Target& target,
                          const std::optional<Dump>& dump = std::nullopt);

/// Forward and gradients of a forward graph, for comparing with a reference: outputs as the graph has them, plus
/// "grad.<name>" for every parameter and every float batch input. `cotangent` names an input that seeds the gradient;
/// empty: the loss, by 1. The forward graph must have been built for `plan`.
Compiled compile_gradients(model::ForwardModel forward, const std::string& cotangent, const schedule::Target& target,
                           const plan::Plan& plan = {});

}  // namespace megacpp::compile
