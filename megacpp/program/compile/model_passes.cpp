// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/model_passes.h"

#include <algorithm>
#include <optional>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/program/compile/training_graph.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/optim/parameter_groups.h"
#include "megacpp/program/optim/update.h"
#include "megacpp/program/partition/cut_stages.h"
#include "megacpp/program/partition/split_passes.h"

namespace megacpp::compile {
namespace {

using ir::Graph;
using ir::ValueId;
using partition::Carry;

// ---- Cutting ----

ModelStage part_from(partition::Stage& stage, const ModelStage& model, bool is_last) {
  ModelStage part{.carried_in = std::move(stage.carried_in), .carried_out = std::move(stage.carried_out)};
  if (is_last) part.loss = stage.values[model.loss->index];
  const std::map<std::string, ValueId> inputs = inputs_by_name(stage.graph);
  std::ranges::copy_if(model.parameters, std::back_inserter(part.parameters),
                       [&](const blocks::Parameter& parameter) { return inputs.contains(parameter.name); });
  for (model::ExpertLoad load : model.expert_loads) {
    load.counts = stage.values[load.counts.index];
    load.dropped = stage.values[load.dropped.index];
    const bool is_made_here = load.counts.index != UINT32_MAX && stage.graph.producer(load.counts).op != ir::kInputOp;
    if (is_made_here) part.expert_loads.push_back(load);
  }
  return part;
}

// Parts come in order, so what is carried in has its sharding already.
void place_carries(Compilation& run, const ModelStage& part, Graph& graph) {
  for (const Carry& carry : part.carried_in)
    graph.node(graph.value(*graph.find_input(carry.name)).producer)
        .attrs.set("sharding", run.carry_shardings.at(carry.name));
  const ir::Mesh& mesh = run.plan.parallel.mesh;
  const partition::Partitioned alone = partition::partition(graph, mesh);
  for (const Carry& carry : part.carried_out)
    run.carry_shardings[carry.name] = ir::to_string(alone.outputs.at(carry.name).sharding, mesh);
}

// ---- Backward passes ----

std::string cotangent_name(const Carry& carry) { return std::string(partition::kCotangentPrefix) + carry.name; }

ValueId arriving_cotangent(const Compilation& run, ops::Builder& builder, const Carry& carry) {
  const ir::TensorType type = builder.type(*builder.graph().find_output(carry.name));
  return builder.input(cotangent_name(carry), type, ir::Role::activation, run.carry_shardings.at(carry.name));
}

// `gradients` are those of carried-in values, in order.
void add_cotangents(const Compilation& run, ops::Builder& builder, const ModelStage& part,
                    const std::vector<ValueId>& gradients) {
  Graph& graph = builder.graph();
  size_t next = 0;
  for (const Carry& carry : part.carried_in) {
    if (!carry.has_gradient) continue;
    const std::string& sharding = run.carry_shardings.at(carry.name);
    builder.set_scope(graph.producer(gradients[next]).scope);
    const ValueId placed = builder.one("reshard", {gradients[next++]}, {{"from", sharding}, {"to", sharding}});
    graph.add_output({.name = cotangent_name(carry), .value = placed});
  }
}

void append_backward_pass(const Compilation& run, Graph& graph, ModelStage& part) {
  part.forward_nodes = graph.nodes().size();
  BackwardEnds ends;
  ops::Builder builder(graph);
  builder.set_scope("loss");
  if (part.loss) ends.seeds.emplace_back(*part.loss, builder.constant(1.0 / static_cast<double>(run.micro_steps())));
  for (const Carry& carry : part.carried_out)
    if (carry.has_gradient)
      ends.seeds.emplace_back(*graph.find_output(carry.name), arriving_cotangent(run, builder, carry));
  for (const Carry& carry : part.carried_in)
    if (carry.has_gradient) ends.targets.push_back(*graph.find_input(carry.name));
  const BackwardContext context{part.parameters, run.trains ? autodiff_options(run.plan.training) : autodiff::Options{},
                                run.plan};
  const std::vector<ValueId> gradients = append_backward(graph, ends, context);
  append_expert_counts(graph, part.expert_loads, run.plan);
  add_cotangents(run, builder, part, gradients);
}

// Gradients of all float inputs become outputs.
void differentiate_all_inputs(Graph& graph, ValueId loss, const std::string& cotangent) {
  ops::Builder builder(graph);
  ValueId seed;
  if (cotangent.empty()) {
    seed = builder.constant(1.0);
  } else {
    // A lone block's cotangent is sharded as its input is, which stands first.
    const std::string sharding = graph.node(graph.inputs()[0]).attrs.text("sharding", "");
    seed = builder.input(cotangent, graph.type(loss), ir::Role::batch, sharding);
  }
  std::vector<ValueId> targets;
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const std::string& name = node.attrs.text("name");
    if (name == cotangent || !ir::is_float(graph.type(node.results[0]).dtype)) continue;
    targets.push_back(node.results[0]);
    names.push_back(name);
  }
  const std::vector<ValueId> gradients = autodiff::differentiate(graph, {{loss, seed}}, targets, {});
  for (size_t i = 0; i < names.size(); ++i)
    graph.add_output({.name = optim::gradient_name(names[i]), .value = gradients[i]});
}

// ---- Updates ----

// How a stage's update is tied to those of other stages: tied embeddings are held by two.
optim::StageLinks links_of(const Compilation& run, int64_t stage) {
  optim::StageLinks links{.stages = run.plan.stages};
  for (const partition::SharedWeight& shared : run.shared) {
    std::vector<int64_t> holders;
    for (const size_t part : shared.stages) holders.push_back(static_cast<int64_t>(part) % run.plan.stages);
    MEGACPP_CHECK(holders.size() == 2 && holders[0] != holders[1]) << shared.name << " is not held by two stages";
    for (size_t i = 0; i < 2; ++i)
      if (holders[i] == stage) links.shared.push_back({shared.name, holders[1 - i] - holders[i], i == 0});
  }
  return links;
}

}  // namespace

double flops_of(const Graph& graph) {
  double flops = 0;
  for (const ir::Node& node : graph.nodes()) {
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    flops += ops::op_def(node.op).cost({operands, results, node.attrs}).flops;
  }
  return flops;
}

void build_model(Compilation& run) {
  if (run.trains) {
    const plan::Training& training = run.plan.training;
    run.forward =
        model::build_forward(run.plan.model, {training.batch, training.sequence, training.precision}, run.plan);
    // Backward, the gradient of a product's input costs as much as the product, and that of its weight once more; of a
    // frozen weight there is none.
    const double passes = run.plan.model.lora.is_on() ? 2 : 3;
    run.compiled.model_flops = passes * flops_of(run.forward.graph) * static_cast<double>(training.micro_steps);
  }
  const bool is_alone = !run.trains && !run.is_pipeline();
  run.programs.push_back(
      {.kind = is_alone ? run.alone : ProgramKind::micro_step, .graph = std::move(run.forward.graph)});
  run.parts.push_back(
      {.loss = run.forward.loss, .parameters = run.forward.parameters, .expert_loads = run.forward.expert_loads});
}

void cut_model(Compilation& run) {
  const Graph whole = std::move(run.programs[0].graph);
  const ModelStage model = std::move(run.parts[0]);
  const int64_t parts = run.plan.stages * run.plan.layout->virtual_stages;
  std::set<std::string> frozen;
  for (const blocks::Parameter& parameter : model.parameters)
    if (parameter.frozen) frozen.insert(parameter.name);
  partition::StageCut cut =
      partition::cut_stages(whole, *model.loss, partition::balanced_cuts(whole, parts, run.plan.cuts), frozen);
  run.shared = std::move(cut.shared);
  run.programs.clear();
  run.parts.clear();
  for (int64_t i = 0; i < parts; ++i) {
    partition::Stage& stage = cut.stages[static_cast<size_t>(i)];
    run.parts.push_back(part_from(stage, model, i + 1 == parts));
    run.programs.push_back({.kind = ProgramKind::micro_step,
                            .stage = i % run.plan.stages,
                            .chunk = i / run.plan.stages,
                            .graph = std::move(stage.graph)});
    place_carries(run, run.parts.back(), run.programs.back().graph);
  }
}

void append_backward_passes(Compilation& run) {
  for (Program& program : run.programs) {
    ModelStage& part = run.part_of(program);
    if (program.kind == ProgramKind::gradients)
      differentiate_all_inputs(program.graph, *part.loss, run.cotangent);
    else
      append_backward_pass(run, program.graph, part);
  }
}

namespace {

// A pattern that names nothing is a typing error.
void check_groups(const Compilation& run) {
  std::vector<blocks::Parameter> all;
  for (const ModelStage& part : run.parts) all.insert(all.end(), part.parameters.begin(), part.parameters.end());
  const std::optional<std::string> pattern = optim::unmatched_pattern(run.plan.optimizer, all);
  MEGACPP_REQUIRE(!pattern, E1003,
                  {.where = "optimizer.no_decay",
                   .got = "'" + *pattern + "', which names no parameter of the model",
                   .wanted = "a pattern of names such as " + all.back().name,
                   .next = "see the names in the table of megacpp explain"});
}

}  // namespace

void build_updates(Compilation& run) {
  check_groups(run);
  const auto stages = static_cast<size_t>(run.plan.stages);
  for (size_t stage = 0; stage < stages; ++stage) {
    ModelStage own;
    for (size_t i = stage; i < run.parts.size(); i += stages) {
      const ModelStage& part = run.parts[i];
      own.parameters.insert(own.parameters.end(), part.parameters.begin(), part.parameters.end());
      own.expert_loads.insert(own.expert_loads.end(), part.expert_loads.begin(), part.expert_loads.end());
    }
    const auto index = static_cast<int64_t>(stage);
    Graph update = build_update({own.parameters, own.expert_loads, run.plan, links_of(run, index)});
    run.programs.push_back({.kind = ProgramKind::update, .stage = index, .graph = std::move(update)});
  }
}

}  // namespace megacpp::compile
