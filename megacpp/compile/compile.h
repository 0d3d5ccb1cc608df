// SPDX-License-Identifier: Apache-2.0
// The whole compiler, one stage after the other. Takes a recipe and what the backend can do; leaves scheduled programs
// and the memory plan of the chip. Each stage's result can be dumped as text and is verified.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/ir/graph.h"
#include "megacpp/memory/memory_plan.h"
#include "megacpp/model/model.h"
#include "megacpp/partition/partition.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/schedule/decompose.h"
#include "megacpp/schedule/target.h"

namespace megacpp::compile {

struct StageTime {
  std::string stage;  // "01-model", ...
  double seconds = 0;
  size_t nodes = 0;  // of all programs after the stage
};

struct Compiled {
  ir::Mesh mesh;                    // one chip without axes
  std::vector<ir::Graph> programs;  // of one chip, scheduled; see Program below
  partition::Placements inputs;     // how state and batch lie on the mesh, by name
  std::vector<partition::Placements> outputs;  // the same for each program's outputs
  /// For each run of tokens a sequence is stored in, its place in time; one run: time order.
  std::vector<int64_t> time_order = {0};
  memory::MemoryPlan memory;
  std::vector<blocks::Parameter> parameters;
  std::vector<model::ExpertLoad> expert_loads;
  std::vector<schedule::Fallback> fallbacks;
  std::vector<StageTime> stages;
  double flops_per_micro_step = 0;  // of the scheduled micro-step program, recompute included
};

/// Indices into Compiled::programs.
enum Program : size_t { kMicroStep = 0, kUpdate = 1 };

/// Writes every stage as text; the files are named after the stages ("01-model.ir" ... "08-memory.txt").
struct Dump {
  std::filesystem::path folder;
};

/// A training run: micro-step (forward, backward, gradient accumulation) and update.
Compiled compile_training(const recipe::Recipe& recipe, const schedule::Target& target,
                          const std::optional<Dump>& dump = std::nullopt);

/// Forward and gradients of a forward graph, for comparing with a reference: outputs as the graph has them, plus
/// "grad.<name>" for every parameter and every float batch input. `cotangent` names an input that seeds the gradient;
/// empty: the loss, by 1.
Compiled compile_gradients(model::ForwardModel forward, const std::string& cotangent, const schedule::Target& target,
                           const plan::Plan& plan = {});

}  // namespace megacpp::compile
