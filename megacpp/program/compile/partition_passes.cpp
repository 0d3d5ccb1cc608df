// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/partition_passes.h"

#include <utility>

#include "megacpp/program/partition/split_passes.h"
#include "megacpp/program/partition/stable_state.h"
#include "megacpp/program/plan/spread.h"
#include "megacpp/program/schedule/narrow_gathers.h"

namespace megacpp::compile {
namespace {

using ir::Graph;

// For a backend that partitions by itself: inputs are sharded as they are annotated, state marked auto as programs
// before have it; outputs stay with the state they replace, others are whole on every chip.
partition::Partitioned place_globally(const Compilation& run, Program& program, const partition::Placements& known) {
  partition::Partitioned result{.graph = std::move(program.graph), .inputs = {}, .outputs = {}};
  for (const ir::NodeId id : result.graph.inputs()) {
    const ir::Node& node = result.graph.node(id);
    const std::string name = node.attrs.text("name"), text = node.attrs.text("sharding", "");
    const ir::TensorType& type = result.graph.type(node.results[0]);
    ir::Sharding sharding = ir::Sharding::replicated(type.shape.size());
    if (text == partition::kAutoSharding) {
      if (const auto at = known.find(name); at != known.end()) sharding = at->second.sharding;
    } else if (!text.empty()) {
      sharding = ir::parse_sharding(text, run.plan.parallel.mesh);
    }
    result.inputs[name] = {type, std::move(sharding)};
  }
  for (const ir::Output& output : result.graph.outputs()) {
    const ir::TensorType& type = result.graph.type(output.value);
    const auto state = result.inputs.find(output.donated);
    result.outputs[output.name] = {
        type, state == result.inputs.end() ? ir::Sharding::replicated(type.shape.size()) : state->second.sharding};
  }
  return result;
}

partition::Partitioned partition_one(Compilation& run, const Program& program, const partition::Placements& known) {
  const bool is_update = program.kind == ProgramKind::update;
  partition::Options options{.max_replicated_bytes = run.plan.layout->max_replicated_bytes,
                             .degree_keys = plan::degree_keys()};
  // Only a program that will be split must have its forward results before the backward pass begins.
  const bool will_be_split = run.is_pipeline() && !is_update;
  if (will_be_split) options.forward_nodes = run.part_of(program).forward_nodes;
  partition::Partitioned result =
      partition::partition(program.graph, run.plan.parallel.mesh, is_update ? known : partition::Placements{}, options);
  if (will_be_split) run.part_of(program).forward_nodes = result.forward_nodes;
  return result;
}

partition::Placements outputs_of(const Graph& graph, const partition::Placements& all) {
  partition::Placements own;
  for (const ir::Output& output : graph.outputs())
    if (const auto at = all.find(output.name); at != all.end()) own.insert(*at);
  return own;
}

}  // namespace

void narrow_gathers(Compilation& run) {
  for (Program& program : run.programs) {
    if (program.kind == ProgramKind::update) continue;
    ModelStage& part = run.part_of(program);
    schedule::NarrowGathers narrowed = schedule::narrow_gathers(program.graph, part.forward_nodes);
    program.graph = std::move(narrowed.graph);
    part.forward_nodes = narrowed.forward_nodes;
  }
}

void partition_programs(Compilation& run) {
  run.inputs.resize(static_cast<size_t>(run.plan.stages));
  for (Program& program : run.programs) {
    partition::Placements& known = run.inputs[static_cast<size_t>(program.stage)];
    partition::Partitioned result =
        run.target.partitions_itself ? place_globally(run, program, known) : partition_one(run, program, known);
    partition::check_stable_state(result, known, run.plan.parallel.mesh);
    known.insert(result.inputs.begin(), result.inputs.end());
    program.outputs = std::move(result.outputs);
    program.graph = std::move(result.graph);
  }
}

void split_programs(Compilation& run) {
  const bool in_two_parts = run.plan.layout->schedule == recipe::StageSchedule::zero_bubble;
  std::vector<ProgramKind> kinds = {ProgramKind::forward, ProgramKind::backward};
  if (in_two_parts) kinds = {ProgramKind::forward, ProgramKind::backward_input, ProgramKind::backward_weight};
  const auto backward = in_two_parts ? partition::Backward::in_two_parts : partition::Backward::whole;
  std::vector<Program> split;
  for (Program& program : run.programs) {
    if (program.kind == ProgramKind::update) {
      split.push_back(std::move(program));
      continue;
    }
    std::vector<partition::Part> parts =
        partition::split_passes(program.graph, run.part_of(program).forward_nodes, backward).parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      Program part{.kind = kinds[i],
                   .stage = program.stage,
                   .chunk = program.chunk,
                   .graph = std::move(parts[i].graph),
                   .outputs = {}};
      part.outputs = outputs_of(part.graph, program.outputs);
      split.push_back(std::move(part));
    }
  }
  run.programs = std::move(split);
}

}  // namespace megacpp::compile
