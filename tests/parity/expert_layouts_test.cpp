// SPDX-License-Identifier: Apache-2.0
// A block of experts and its gradients, spread over small meshes in every way the block names, against the same program
// on one chip, both by the reference evaluator.
#include <gtest/gtest.h>

#include <map>

#include "megacpp/program/autodiff/differentiate.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/partition/partition.h"
#include "tests/support/expert_configs.h"
#include "tests/support/spmd_evaluator.h"
#include "tests/support/tensors.h"

namespace megacpp {
namespace {

using blocks::Dim;
using blocks::FeedForward;
using blocks::Parallel;
using ir::ValueId;
using ops::Tensor;

constexpr int64_t kBatch = 4, kSequence = 8, kHidden = 6;

struct Case {
  std::string name;
  FeedForward config;
  Parallel parallel;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::map<std::string, Parallel> all_layouts() {
  const ir::Mesh data_expert({{"data", 2}, {"expert", 2}}), expert_model({{"expert", 2}, {"model", 2}});
  const ir::Mesh expert_context({{"expert", 2}, {"context", 2}});
  const Parallel owners{.mesh = data_expert, .axes = {{Dim::batch, {0, 1}}, {Dim::data, {0}}, {Dim::experts, {1}}}};
  const Parallel split_experts{
      .mesh = expert_model, .axes = {{Dim::batch, {0}}, {Dim::experts, {0}}, {Dim::mlp, {1}}, {Dim::expert_mlp, {1}}}};
  const Parallel split_tokens{
      .mesh = expert_model,
      .axes = {{Dim::batch, {0}}, {Dim::experts, {0}}, {Dim::stream, {1}}, {Dim::tokens, {1}}, {Dim::mlp, {1}}},
      .token_chunks = 2};
  const Parallel context{
      .mesh = expert_context,
      .axes = {{Dim::batch, {0}}, {Dim::experts, {0}}, {Dim::stream, {1}}, {Dim::sequence, {1}}, {Dim::tokens, {1}}},
      .sequence_chunks = 4,
      .token_chunks = 4,
      .balanced_order = true};
  const Parallel no_owners{.mesh = data_expert, .axes = {{Dim::batch, {0, 1}}, {Dim::data, {0, 1}}}};
  std::map<std::string, Parallel> layouts = {
      {"owners", owners}, {"split_experts", split_experts}, {"split_tokens", split_tokens}, {"context", context}};
  for (const auto& [name, layout] : std::map(layouts)) {
    layouts[name + "_gathered"] = layout;
    layouts[name + "_gathered"].gathers_tokens = true;
  }
  layouts["no_owners"] = no_owners;
  return layouts;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [layout, parallel] : all_layouts())
    for (const auto& [name, config] : testing_support::expert_configs(4, 4))
      cases.push_back({layout + "_" + name, config, parallel});
  return cases;
}

// The block, a loss that reads everything it gives, and the gradients of all that can have one.
class Program {
 public:
  explicit Program(const Case& c) : parallel_(c.parallel), b_(graph) {
    const blocks::Dims dims{.batch = kBatch, .sequence = kSequence, .hidden = kHidden};
    const blocks::Config config = blocks::Config::of(c.config);
    std::vector<ValueId> targets = {input("x", {kBatch, kSequence, kHidden}, {Dim::batch, Dim::stream, Dim::whole})};
    std::map<std::string, ValueId> weights;
    for (const blocks::Parameter& parameter : blocks::block_def('E').parameters(dims, config)) {
      weights[parameter.name] = input(parameter.name, parameter.shape, parameter.dims);
      if (parameter.trainable) targets.push_back(weights[parameter.name]);
    }
    std::vector<blocks::RouterStats> routers;
    blocks::BuildContext context{.builder = b_,
                                 .dims = dims,
                                 .config = config,
                                 .parallel = parallel_,
                                 .block = "block00",
                                 .weights = weights,
                                 .routers = &routers};
    if (parallel_.balanced_order)
      context.positions = b_.input("positions", {ir::DType::i32, {kSequence}}, ir::Role::batch);
    const ValueId y = blocks::block_def('E').build(context, targets[0]);
    const blocks::RouterStats& router = routers.at(0);
    const ValueId weighted = b_.mul(y, input("cotangent", b_.shape(y), {Dim::batch, Dim::stream, Dim::whole}));
    const ValueId balance = b_.sum_all(b_.mul(router.counts, router.probability_sum));
    const ValueId penalty = b_.add(b_.scale(balance, 0.01), router.square_lse_mean);
    const ValueId loss = b_.add(b_.sum_all(weighted), penalty);
    const std::map<std::string, ValueId> outputs = {
        {"y", y}, {"loss", loss}, {"counts", router.counts}, {"dropped", router.dropped}, {"logits", router.logits}};
    for (const auto& [name, value] : outputs) graph.add_output({.name = name, .value = value});
    const std::vector<ValueId> gradients =
        autodiff::differentiate(graph, {{loss, b_.constant(1.0)}}, targets, autodiff::Options{});
    for (size_t i = 0; i < targets.size(); ++i)
      graph.add_output({.name = "grad." + graph.producer(targets[i]).attrs.text("name"), .value = gradients[i]});
  }

  std::map<std::string, Tensor> inputs() const {
    std::map<std::string, Tensor> inputs = testing_support::random_inputs(graph, "experts");
    const std::vector<int64_t> time = parallel_.time_order(parallel_.token_chunks);
    const int64_t length = kSequence / parallel_.token_chunks;
    if (const auto at = inputs.find("positions"); at != inputs.end())
      for (int64_t t = 0; t < kSequence; ++t)
        at->second[t] = static_cast<double>(time[static_cast<size_t>(t / length)] * length + t % length);
    return inputs;
  }

  ir::Graph graph{"experts"};

 private:
  ValueId input(const std::string& name, const ir::Shape& shape, const std::vector<Dim>& dims) {
    return b_.input(name, {ir::DType::f32, shape}, ir::Role::batch,
                    to_string(parallel_.sharding(dims), parallel_.mesh));
  }

  const Parallel& parallel_;
  ops::Builder b_;
};

class ExpertLayoutsTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ExpertLayoutsTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST_P(ExpertLayoutsTest, GivesTheSameAsOneChip) {
  const ir::Mesh& mesh = GetParam().parallel.mesh;
  const Program program(GetParam());
  const std::map<std::string, Tensor> inputs = program.inputs();
  const std::map<std::string, Tensor> wanted = ops::evaluate(program.graph, inputs, ops::Rounding::none);
  const partition::Partitioned parts = partition::partition(program.graph, mesh);
  std::vector<std::map<std::string, Tensor>> per_chip(static_cast<size_t>(mesh.chips()));
  for (size_t chip = 0; chip < per_chip.size(); ++chip)
    for (const auto& [name, tensor] : inputs)
      per_chip[chip][name] =
          testing_support::shard(tensor, parts.inputs.at(name).sharding, mesh, static_cast<int64_t>(chip));
  const auto got = testing_support::evaluate_spmd(parts.graph, mesh, per_chip, ops::Rounding::none);
  for (const auto& [name, tensor] : wanted) {
    std::vector<Tensor> pieces;
    for (const auto& outputs : got) pieces.push_back(outputs.at(name));
    const Tensor joined = testing_support::unshard(pieces, tensor.type.shape, parts.outputs.at(name).sharding, mesh);
    EXPECT_TRUE(testing_support::is_close(joined, tensor, 1e-9)) << name;
  }
}

// Rows travel to the owners of their experts and back, and their gradients the same way: none is ever gathered.
TEST_P(ExpertLayoutsTest, RowsTravelByTheDispatcherAskedFor) {
  const Parallel& parallel = GetParam().parallel;
  const partition::Partitioned parts = partition::partition(Program(GetParam()).graph, parallel.mesh);
  int64_t exchanges = 0;
  for (const ir::Node& node : parts.graph.nodes()) {
    const bool of_rows = node.op != "input" && !node.operands.empty() && parts.graph.type(node.operands[0]).rank() == 5;
    if (!of_rows) continue;
    if (node.op == "all_to_all") ++exchanges;
    EXPECT_NE(node.op, "all_gather") << node.scope;
  }
  const bool has_owners = !parallel.axes_of(Dim::experts).empty();
  EXPECT_EQ(exchanges, has_owners && !parallel.gathers_tokens ? 4 : 0);
}

}  // namespace
}  // namespace megacpp
