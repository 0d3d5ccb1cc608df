// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/training_graph.h"

#include <algorithm>
#include <map>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/optim/update.h"
#include "megacpp/program/partition/partition.h"

namespace megacpp::compile {
namespace {

using ir::Graph;
using ir::ValueId;

std::string count_name(const std::string& block) { return "expert_count." + block; }

std::string sharding_of_waiting_sums(const plan::Plan& plan) {
  return plan.parallel.is_one_chip() ? "" : std::string(partition::kAutoSharding);
}

// Adds `value` to a state tensor of the same type. On a mesh the state is sharded as `sharding` says.
void accumulate(ops::Builder& builder, const std::string& state, ValueId value, std::string sharding) {
  const ValueId total = builder.input(state, builder.type(value), ir::Role::gradient, std::move(sharding));
  builder.graph().add_output({.name = state, .value = builder.add(total, value), .donated = state});
}

// The gradient split as its weight is computed with; where the reduction waits for the update, chips keep their own
// part of the sum, and the state is sharded as the gradient comes.
ValueId placed_gradient(ops::Builder& builder, ValueId gradient, const std::string& sharding, bool waits) {
  if (sharding.empty()) return gradient;
  ir::Attrs attrs = {{"from", sharding}, {"to", sharding}};
  if (waits) attrs.set("partial", int64_t{1});
  return builder.one("reshard", {gradient}, std::move(attrs));
}

void accumulate_gradient(ops::Builder& builder, const blocks::Parameter& parameter, ValueId gradient,
                         const plan::Plan& plan) {
  const std::string state = optim::gradient_name(parameter.name);
  std::string sharding;
  if (!plan.parallel.is_one_chip()) {
    const ir::Sharding wanted{.dims = plan::spec_of(plan, parameter).gradient.dims};
    sharding = ir::to_string(wanted, plan.parallel.mesh);
  }
  const ValueId placed = placed_gradient(builder, gradient, sharding, plan.gradients_wait);
  if (plan.adds_micro_steps)
    return accumulate(builder, state, placed, plan.gradients_wait ? sharding_of_waiting_sums(plan) : sharding);
  // The only gradient of the step takes the place of the state: nothing to add to, and no second buffer.
  builder.input(state, builder.type(placed), ir::Role::gradient, sharding);
  builder.graph().add_output({.name = state, .value = placed, .donated = state});
}

std::vector<optim::BiasBalance> bias_balances(const std::vector<model::ExpertLoad>& loads, const plan::Plan& plan) {
  std::vector<optim::BiasBalance> balances;
  for (const model::ExpertLoad& load : loads)
    if (load.steers_bias())
      balances.push_back(
          {load.bias, count_name(load.block), load.experts, load.bias_rate, sharding_of_waiting_sums(plan)});
  return balances;
}

std::vector<optim::StateShardings> state_shardings(const std::vector<blocks::Parameter>& parameters,
                                                   const plan::Plan& plan) {
  std::vector<optim::StateShardings> shardings;
  if (plan.parallel.is_one_chip()) return shardings;
  const ir::Mesh& mesh = plan.parallel.mesh;
  for (const blocks::Parameter& parameter : parameters) {
    const plan::ParameterSpec spec = plan::spec_of(plan, parameter);
    const std::string gradient =
        plan.gradients_wait ? sharding_of_waiting_sums(plan) : ir::to_string(spec.gradient, mesh);
    shardings.push_back({.weight = ir::to_string(spec.stored, mesh),
                         .gradient = gradient,
                         .update = ir::to_string(spec.optimizer, mesh),
                         .matrices = ir::to_string(spec.matrices, mesh),
                         .state = {}});
    for (const optim::StateTensor& tensor : spec.state)
      shardings.back().state.push_back(ir::to_string(tensor.sharding, mesh));
  }
  return shardings;
}

}  // namespace

autodiff::Options autodiff_options(const plan::Training& training) {
  const auto policy = [](recipe::RecomputeLevel level) {
    if (recipe::keeps_everything(level)) return autodiff::Recompute::none;
    return level == recipe::RecomputeLevel::full ? autodiff::Recompute::full : autodiff::Recompute::selective;
  };
  autodiff::Options options;
  for (const auto& [letter, level] : training.recompute) options.recompute[std::string(1, letter)] = policy(level);
  return options;
}

std::map<std::string, ValueId> inputs_by_name(const Graph& graph) {
  std::map<std::string, ValueId> inputs;
  for (const ir::NodeId id : graph.inputs())
    inputs.emplace(graph.node(id).attrs.text("name"), graph.node(id).results[0]);
  return inputs;
}

std::vector<ValueId> append_backward(Graph& graph, const BackwardEnds& ends, const BackwardContext& context) {
  const std::map<std::string, ValueId> inputs = inputs_by_name(graph);
  std::vector<ValueId> targets = ends.targets;
  std::vector<const blocks::Parameter*> trainable;
  for (const blocks::Parameter& parameter : context.parameters) {
    const auto at = inputs.find(parameter.name);
    if (!parameter.trainable || at == inputs.end()) continue;
    targets.push_back(at->second);
    trainable.push_back(&parameter);
  }
  std::vector<ValueId> gradients = autodiff::differentiate(graph, ends.seeds, targets, context.options);
  ops::Builder builder(graph);
  for (size_t i = 0; i < trainable.size(); ++i) {
    const size_t at = ends.targets.size() + i;
    builder.set_scope(graph.producer(targets[at]).scope);
    accumulate_gradient(builder, *trainable[i], gradients[at], context.plan);
  }
  gradients.resize(ends.targets.size());
  return gradients;
}

void append_expert_counts(Graph& graph, const std::vector<model::ExpertLoad>& loads, const plan::Plan& plan) {
  ops::Builder builder(graph);
  for (const model::ExpertLoad& load : loads) {
    builder.set_scope(load.scope);
    if (load.steers_bias()) accumulate(builder, count_name(load.block), load.counts, sharding_of_waiting_sums(plan));
    graph.add_output({.name = load.counts_name(), .value = load.counts});
    graph.add_output({.name = load.dropped_name(), .value = load.dropped});
  }
}

Graph build_update(const UpdateContext& context) {
  const recipe::Optimizer& optimizer = context.plan.optimizer;
  return optim::build_update(optim::optimizer_def(optimizer.name), optimizer,
                             {.parameters = context.parameters,
                              .balances = bias_balances(context.loads, context.plan),
                              .shardings = state_shardings(context.parameters, context.plan),
                              .links = context.links,
                              .zeroes_gradients = context.plan.adds_micro_steps});
}

}  // namespace megacpp::compile
