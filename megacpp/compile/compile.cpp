// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/compile.h"

#include <chrono>
#include <functional>
#include <map>

#include "megacpp/autodiff/differentiate.h"
#include "megacpp/base/file.h"
#include "megacpp/ir/text.h"
#include "megacpp/memory/report.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/verify.h"
#include "megacpp/optim/adamw.h"
#include "megacpp/plan/plan.h"
#include "megacpp/schedule/fold_accumulation.h"
#include "megacpp/schedule/fuse.h"
#include "megacpp/schedule/order.h"
#include "megacpp/schedule/remove_dead.h"
#include "megacpp/schedule/widen_products.h"

namespace megacpp::compile {
namespace {

using ir::Graph;
using ir::ValueId;

// Runs stages in order: times, verifies and dumps each one's result.
class Pipeline {
 public:
  Pipeline(Compiled& compiled, std::optional<Dump> dump) : compiled_(compiled), dump_(std::move(dump)) {}

  void stage(const std::string& name, ops::Stage leaves, const std::function<void(std::vector<Graph>&)>& body) {
    const auto start = std::chrono::steady_clock::now();
    body(compiled_.programs);
    finish(name, start);
    for (const Graph& graph : compiled_.programs) ops::verify(graph, leaves);
    if (!dump_) return;
    std::string text;
    for (const Graph& graph : compiled_.programs) text += ir::print(graph);
    base::write_file_atomically(dump_->folder / (name + ".ir"), text);
  }

  /// A pass that rewrites each program by itself.
  void pass(const std::string& name, ops::Stage leaves, const std::function<Graph(const Graph&)>& rewrite) {
    stage(name, leaves, [&](std::vector<Graph>& programs) {
      for (Graph& graph : programs) graph = rewrite(graph);
    });
  }

  void plan_memory(const std::string& name, const schedule::Target& target) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<const Graph*> graphs;
    for (const Graph& graph : compiled_.programs) graphs.push_back(&graph);
    compiled_.memory = memory::plan_memory(graphs, target);
    finish(name, start);
    if (dump_) base::write_file_atomically(dump_->folder / (name + ".txt"), memory::to_text(compiled_.memory));
  }

 private:
  void finish(const std::string& name, std::chrono::steady_clock::time_point start) {
    size_t nodes = 0;
    for (const Graph& graph : compiled_.programs) nodes += graph.nodes().size();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    compiled_.stages.push_back({name, seconds, nodes});
  }

  Compiled& compiled_;
  std::optional<Dump> dump_;
};

double flops_of(const Graph& graph) {
  double flops = 0;
  for (const ir::Node& node : graph.nodes()) {
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    flops += ops::op_def(node.op).cost({operands, results, node.attrs}).flops;
  }
  return flops;
}

// From differentiated programs to the memory plan: the same for every kind of run.
void lower(Compiled& compiled, Pipeline& pipeline, const schedule::Target& target) {
  pipeline.pass("04-decompose", ops::Stage::built, [&](const Graph& graph) {
    schedule::Decomposed result = schedule::decompose(schedule::remove_dead(graph), target);
    compiled.fallbacks.insert(compiled.fallbacks.end(), result.fallbacks.begin(), result.fallbacks.end());
    return std::move(result.graph);
  });
  // Widening first: a product that is wide already can take the accumulator as its addend.
  pipeline.pass("05-fold", ops::Stage::built,
                [](const Graph& graph) { return schedule::fold_accumulation(schedule::widen_products(graph)); });
  pipeline.pass("06-fuse", ops::Stage::fused, schedule::fuse);
  pipeline.pass("07-order", ops::Stage::fused, schedule::order_for_low_peak);
  pipeline.plan_memory("08-memory", target);
  compiled.flops_per_micro_step = flops_of(compiled.programs[kMicroStep]);
}

autodiff::Options autodiff_options(const recipe::Train& train) {
  const auto policy = [](const std::string& name) {
    if (name == "full") return autodiff::Recompute::full;
    return name == "selective" ? autodiff::Recompute::selective : autodiff::Recompute::none;
  };
  return {.recompute = {{"A", policy(train.recompute_A)},
                        {"E", policy(train.recompute_E)},
                        {"M", policy(train.recompute_M)},
                        {"R", policy(train.recompute_R)}}};
}

std::string count_name(const std::string& block) { return "expert_count." + block; }

// Adds `value` to a state tensor of the same type. On a mesh the state lies as `sharding` says.
void accumulate(ops::Builder& builder, const std::string& state, ValueId value, std::string sharding) {
  Graph& graph = builder.graph();
  const ValueId total = builder.input(state, builder.type(value), ir::Role::gradient);
  if (!sharding.empty()) graph.node(graph.value(total).producer).attrs.set("sharding", std::move(sharding));
  graph.add_output({.name = state, .value = builder.add(total, value), .donated = state});
}

// The gradient split as its weight is computed with; where the reduction waits for the update, chips keep their own
// part of the sum, and the state lies as the gradient comes.
void accumulate_gradient(ops::Builder& builder, const blocks::Parameter& parameter, ValueId gradient,
                         const plan::Plan& plan) {
  const std::string state = optim::gradient_name(parameter.name);
  if (plan.parallel.is_one_chip()) return accumulate(builder, state, gradient, "");
  const ir::Sharding wanted{.dims = plan::spec_of(plan, parameter).gradient.dims};
  const std::string text = ir::to_string(wanted, plan.parallel.mesh);
  ir::Attrs attrs = {{"from", text}, {"to", text}};
  if (plan.gradients_wait) attrs.set("partial", int64_t{1});
  const ValueId placed = builder.one("reshard", {gradient}, std::move(attrs));
  accumulate(builder, state, placed, plan.gradients_wait ? std::string(partition::kAutoSharding) : text);
}

// All at once: a search per parameter would grow with the square of the depth.
std::map<std::string, ValueId> inputs_by_name(const Graph& graph) {
  std::map<std::string, ValueId> inputs;
  for (const ir::NodeId id : graph.inputs())
    inputs.emplace(graph.node(id).attrs.text("name"), graph.node(id).results[0]);
  return inputs;
}

// Appends the backward pass and the accumulation of gradients and expert counts over micro-steps.
void differentiate(Graph& graph, const model::ForwardModel& forward, const recipe::Train& train,
                   const plan::Plan& plan) {
  ops::Builder builder(graph);
  builder.set_scope("loss");
  const ValueId seed = builder.constant(1.0 / static_cast<double>(train.micro_steps));
  const std::map<std::string, ValueId> inputs = inputs_by_name(graph);
  std::vector<ValueId> targets;
  std::vector<const blocks::Parameter*> trainable;
  for (const blocks::Parameter& parameter : forward.parameters) {
    if (!parameter.trainable) continue;
    targets.push_back(inputs.at(parameter.name));
    trainable.push_back(&parameter);
  }
  const std::vector<ValueId> gradients =
      autodiff::differentiate(graph, {{forward.loss, seed}}, targets, autodiff_options(train));
  for (size_t i = 0; i < gradients.size(); ++i) {
    builder.set_scope(graph.producer(targets[i]).scope);
    accumulate_gradient(builder, *trainable[i], gradients[i], plan);
  }
  for (const model::ExpertLoad& load : forward.expert_loads) {
    builder.set_scope(load.block + ".E");
    if (load.steers_bias)
      accumulate(builder, count_name(load.block), load.counts,
                 plan.parallel.is_one_chip() ? "" : std::string(partition::kAutoSharding));
    graph.add_output({.name = "expert_load." + load.block, .value = load.counts});
  }
}

std::vector<optim::BiasBalance> bias_balances(const model::ForwardModel& forward, const blocks::FeedForward& config) {
  std::vector<optim::BiasBalance> balances;
  for (const model::ExpertLoad& load : forward.expert_loads)
    if (load.steers_bias)
      balances.push_back({load.block + ".E.expert_bias", count_name(load.block), config.experts, config.bias_rate});
  return balances;
}

std::vector<optim::StateShardings> state_shardings(const model::ForwardModel& forward, const plan::Plan& plan) {
  std::vector<optim::StateShardings> shardings;
  if (plan.parallel.is_one_chip()) return shardings;
  const ir::Mesh& mesh = plan.parallel.mesh;
  for (const blocks::Parameter& parameter : forward.parameters) {
    const plan::ParameterSpec spec = plan::spec_of(plan, parameter);
    const std::string gradient =
        plan.gradients_wait ? std::string(partition::kAutoSharding) : ir::to_string(spec.gradient, mesh);
    shardings.push_back({ir::to_string(spec.stored, mesh), gradient, ir::to_string(spec.optimizer, mesh)});
  }
  return shardings;
}

// Every program of the run becomes the program of one chip. State lies in later programs as earlier ones leave it.
void partition_programs(Compiled& compiled, Pipeline& pipeline, const partition::Options& options) {
  pipeline.stage("03-partition", ops::Stage::built, [&](std::vector<Graph>& programs) {
    partition::Placements known;
    for (Graph& graph : programs) {
      partition::Partitioned result = partition::partition(graph, compiled.mesh, known, options);
      known.insert(result.inputs.begin(), result.inputs.end());
      compiled.outputs.push_back(std::move(result.outputs));
      graph = std::move(result.graph);
    }
    compiled.inputs = std::move(known);
  });
}

}  // namespace

Compiled compile_training(const recipe::Recipe& recipe, const schedule::Target& target,
                          const std::optional<Dump>& dump) {
  if (dump) base::make_folder(dump->folder);
  const plan::Plan plan = plan::make_plan(recipe);
  Compiled compiled;
  compiled.mesh = plan.parallel.mesh;
  if (plan.parallel.balanced_order) compiled.time_order = plan.parallel.time_order(plan.parallel.sequence_chunks);
  Pipeline pipeline(compiled, dump);
  model::ForwardModel forward;
  pipeline.stage("01-model", ops::Stage::built, [&](std::vector<Graph>& programs) {
    const ir::DType compute = recipe.train.precision == "bf16" ? ir::DType::bf16 : ir::DType::f32;
    forward = model::build_forward(recipe.model, {recipe.train.batch, recipe.train.sequence, compute}, plan);
    programs.push_back(std::move(forward.graph));
  });
  pipeline.stage("02-autodiff", ops::Stage::built, [&](std::vector<Graph>& programs) {
    differentiate(programs[kMicroStep], forward, recipe.train, plan);
    programs.push_back(optim::build_update(forward.parameters, bias_balances(forward, recipe.model.feed_forward),
                                           recipe.optimizer, state_shardings(forward, plan)));
  });
  partition_programs(compiled, pipeline, {.max_replicated_bytes = plan.layout.max_replicated_bytes});
  lower(compiled, pipeline, target);
  compiled.parameters = std::move(forward.parameters);
  compiled.expert_loads = std::move(forward.expert_loads);
  return compiled;
}

Compiled compile_gradients(model::ForwardModel forward, const std::string& cotangent, const schedule::Target& target,
                           const plan::Plan& plan) {
  Compiled compiled;
  compiled.mesh = plan.parallel.mesh;
  if (plan.parallel.balanced_order) compiled.time_order = plan.parallel.time_order(plan.parallel.sequence_chunks);
  Pipeline pipeline(compiled, std::nullopt);
  pipeline.stage("01-model", ops::Stage::built,
                 [&](std::vector<Graph>& programs) { programs.push_back(std::move(forward.graph)); });
  pipeline.stage("02-autodiff", ops::Stage::built, [&](std::vector<Graph>& programs) {
    Graph& graph = programs[0];
    ops::Builder builder(graph);
    const ValueId seed =
        cotangent.empty() ? builder.constant(1.0) : builder.input(cotangent, graph.type(forward.loss), ir::Role::batch);
    std::vector<ValueId> targets;
    std::vector<std::string> names;
    for (const ir::NodeId id : graph.inputs()) {
      const ir::Node& node = graph.node(id);
      const std::string& name = node.attrs.text("name");
      if (name == cotangent || !ir::is_float(graph.type(node.results[0]).dtype)) continue;
      targets.push_back(node.results[0]);
      names.push_back(name);
    }
    const std::vector<ValueId> gradients = autodiff::differentiate(graph, {{forward.loss, seed}}, targets, {});
    for (size_t i = 0; i < names.size(); ++i)
      graph.add_output({.name = optim::gradient_name(names[i]), .value = gradients[i]});
  });
  partition_programs(compiled, pipeline, {});
  lower(compiled, pipeline, target);
  compiled.parameters = std::move(forward.parameters);
  return compiled;
}

}  // namespace megacpp::compile
