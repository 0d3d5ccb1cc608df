// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/partition_passes.h"

#include <utility>

#include "megacpp/partition/split_passes.h"
#include "megacpp/plan/spread.h"
#include "megacpp/schedule/narrow_gathers.h"

namespace megacpp::compile {
namespace {

using ir::Graph;

// Inputs of a global program are sharded as they are annotated; outputs that are no state are whole on every chip.
partition::Placements place_globally(const Graph& graph, const ir::Mesh& mesh, partition::Placements& inputs) {
  for (const ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const ir::TensorType& type = graph.type(node.results[0]);
    const std::string text = node.attrs.text("sharding", "");
    const bool is_given = !text.empty() && text != partition::kAutoSharding;
    inputs.emplace(node.attrs.text("name"),
                   partition::Placement{
                       type, is_given ? ir::parse_sharding(text, mesh) : ir::Sharding::replicated(type.shape.size())});
  }
  partition::Placements outputs;
  for (const ir::Output& output : graph.outputs()) {
    const ir::TensorType& type = graph.type(output.value);
    outputs.emplace(output.name, partition::Placement{type, ir::Sharding::replicated(type.shape.size())});
  }
  return outputs;
}

void partition_program(Compilation& run, Program& program, partition::Placements& inputs) {
  const bool is_update = program.kind == ProgramKind::update;
  partition::Options options{.max_replicated_bytes = run.plan.layout.max_replicated_bytes,
                             .degree_keys = plan::degree_keys()};
  // Only a program that will be split must have its forward results before the backward pass begins.
  const bool will_be_split = run.is_pipeline() && !is_update;
  if (will_be_split) options.forward_nodes = run.part_of(program).forward_nodes;
  partition::Partitioned result = partition::partition(program.graph, run.plan.parallel.mesh,
                                                       is_update ? inputs : partition::Placements{}, options);
  inputs.insert(result.inputs.begin(), result.inputs.end());
  program.outputs = std::move(result.outputs);
  program.graph = std::move(result.graph);
  if (will_be_split) run.part_of(program).forward_nodes = result.forward_nodes;
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
    partition::Placements& inputs = run.inputs[static_cast<size_t>(program.stage)];
    if (run.target.partitions_itself)
      program.outputs = place_globally(program.graph, run.plan.parallel.mesh, inputs);
    else
      partition_program(run, program, inputs);
  }
}

void split_programs(Compilation& run) {
  const bool in_two_parts = run.plan.layout.schedule == "zero_bubble";
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
