// SPDX-License-Identifier: Apache-2.0
// What the compiler leaves: for each pipeline stage the programs of its chips, the order in which a step runs them, and
// their memory plan. Without a pipeline there is one stage, which all chips run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/partition/partition.h"
#include "megacpp/program/schedule/decompose.h"

namespace megacpp::compile {

enum class ProgramKind : uint8_t {
  micro_step,       // forward, backward and the sums of gradients: of the whole model or, until it is split, of a stage
  gradients,        // forward, and gradients as outputs, for comparing with a reference
  forward,          // these four: of one model stage, in a pipeline
  backward,         // whole, or as the next two
  backward_input,   // what the stage before waits for
  backward_weight,  // the rest
  receive_activations,
  send_activations,
  receive_cotangents,
  send_cotangents,
  update,
  convert_weights,  // weights as products read them, for all micro-steps of a step: it runs first
  inference,        // forward alone: of whole sequences, or of a token with the state of those before it
};
std::string_view kind_name(ProgramKind kind);

struct Program {
  ProgramKind kind = ProgramKind::micro_step;
  int64_t stage = 0;  // of the pipeline: its chips run it
  int64_t chunk = 0;  // which of the stage's parts of the model, where a schedule interleaves several
  ir::Graph graph = ir::Graph();
  partition::Placements outputs = {};  // how its outputs are sharded, by name; none for what is handed between stages
};

/// One run of a program in a chip's step.
struct Action {
  size_t program = 0;        // index into StagePrograms::programs
  int64_t micro = 0;         // micro-batch it works on; convert_weights: the first; the update: the last
  std::string prefix = {};   // of the names of this micro-batch's state: "" or, in a pipeline, "chunk0.slot1."
  bool reads_batch = false;  // whether inputs <prefix>batch.* must hold the micro-batch
};

/// One tensor that the chips of a stage hold between programs.
struct StateTensor {
  std::string name;
  ir::Role role = ir::Role::weight;
  ir::TensorType whole = {};
  ir::Sharding sharding = {};
  bool trainable = false;  // a parameter that gradients change
  bool kept = false;       // from step to step: parameters and optimizer state; all else is made within a step
  /// The batch input that is copied here before a program reads it: "batch.ids" for "chunk0.slot1.batch.ids". Empty:
  /// none.
  std::string staged_as = {};
  bool per_micro_step = false;  // each micro-step has its own; else one for the whole step, as the learning rate
};

/// What the chips of one pipeline stage run.
struct StagePrograms {
  std::vector<Program> programs = {};  // of one chip, scheduled
  memory::MemoryPlan memory = {};
  std::vector<Action> step = {};        // one optimizer step, in order
  std::vector<StateTensor> state = {};  // every input of the programs, sorted by name
  int64_t kept_beside = 0;              // bytes kept from step to step that `state` has not: of a plan without programs
  double flops = 0;                     // of one chip in one step without the update, recompute included

  bool has(ProgramKind kind) const;
  /// The first program of the kind, which must exist. Without a pipeline there is one of each.
  size_t index_of(ProgramKind kind) const;
  const Program& find(ProgramKind kind) const { return programs[index_of(kind)]; }
  ProgramKind kind_of(const Action& action) const { return programs[action.program].kind; }
  bool is_update(const Action& action) const { return kind_of(action) == ProgramKind::update; }
  /// Nothing where the stage has no state of that name.
  const StateTensor* find_state(const std::string& name) const;
  /// How the state is sharded over the mesh, by name.
  partition::Placements placements() const;
};

struct PassTime {
  std::string name;           // "01-model", ...
  double seconds = 0;         // of the pass itself
  double verify_seconds = 0;  // of checking what it left
  size_t nodes = 0;           // of all programs after the pass
};

struct Compiled {
  ir::Mesh mesh;                      // one chip without axes
  std::vector<StagePrograms> stages;  // of the pipeline; one without
  /// For each run of tokens a sequence is stored in, its place in time; one run: time order.
  std::vector<int64_t> time_order = {0};
  std::vector<blocks::Parameter> parameters;
  std::vector<model::ExpertLoad> expert_loads;
  std::vector<schedule::Fallback> fallbacks;
  std::vector<PassTime> passes;  // those that ran
  /// Of the whole model in one step: forward once and backward twice that (once where
  /// weights are frozen), nothing recomputed. What MFU counts.
  double model_flops = 0;

  double compile_seconds() const;  // of all passes, without verification
  double verify_seconds() const;
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

}  // namespace megacpp::compile
