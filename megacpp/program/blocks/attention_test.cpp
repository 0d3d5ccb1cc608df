// SPDX-License-Identifier: Apache-2.0
// How an A block is spread: what it hands to `attention`, and where the spread of values changes.
#include "megacpp/program/blocks/attention.h"

#include <gtest/gtest.h>

#include "megacpp/program/blocks/block.h"
#include "megacpp/program/ops/verify.h"

namespace megacpp::blocks {
namespace {

enum class Order { in_time, balanced };

// The graph of one A block with document masks.
ir::Graph block_of(const Parallel& parallel, Order order = Order::in_time) {
  const Dims dims{.batch = 2, .sequence = 8, .hidden = 16};
  const Config config = Config::of(Attention{.heads = 4, .kv_heads = 2, .head_dim = 4, .document_mask = true});
  ir::Graph graph("block");
  ops::Builder builder(graph);
  builder.set_scope("block00.A");
  std::map<std::string, ValueId> weights;
  for (const Parameter& parameter : block_def('A').parameters(dims, config))
    weights[parameter.name] = builder.input(parameter.name, {ir::DType::f32, parameter.shape}, ir::Role::weight);
  const ir::TensorType table{ir::DType::f32, {8, 2}};
  BuildContext context{.builder = builder,
                       .dims = dims,
                       .config = config,
                       .parallel = parallel,
                       .block = "block00",
                       .weights = weights,
                       .shared = {{"rope_cos", builder.input("cos", table, ir::Role::batch)},
                                  {"rope_sin", builder.input("sin", table, ir::Role::batch)}},
                       .segments = builder.input("segments", {ir::DType::i32, {2, 8}}, ir::Role::batch)};
  if (order == Order::balanced) context.positions = builder.input("positions", {ir::DType::i32, {8}}, ir::Role::batch);
  const ValueId x = builder.input("x", {ir::DType::f32, {2, 8, 16}}, ir::Role::batch);
  graph.add_output({.name = "y", .value = block_def('A').build(context, x)});
  ops::verify(graph, ops::Form::built);
  return graph;
}

const ir::Node& attention_of(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes())
    if (node.op == "attention") return node;
  throw std::logic_error("no attention");
}

// "from => to" of each change of spread, in order.
std::vector<std::string> changes_of(const ir::Graph& graph) {
  std::vector<std::string> changes;
  for (const ir::Node& node : graph.nodes())
    if (node.op == "reshard") changes.push_back(node.attrs.text("from") + " => " + node.attrs.text("to"));
  return changes;
}

Parallel over_context_and_model() {
  return {.mesh = ir::Mesh({{"context", 2}, {"model", 2}}),
          .axes = {{Dim::stream, {0, 1}},
                   {Dim::sequence, {0}},
                   {Dim::heads, {1}},
                   {Dim::kv_heads, {1}},
                   {Dim::whole_heads, {1, 0}},
                   {Dim::whole_kv, {1}}}};
}

TEST(AttentionBlockTest, SegmentsAndPositionsStandForBothSides) {
  const ir::Graph graph = block_of({}, Order::balanced);
  const ir::Node& node = attention_of(graph);
  ASSERT_EQ(node.operands.size(), 7U);
  EXPECT_EQ(node.operands[3], node.operands[4]);
  EXPECT_EQ(node.operands[5], node.operands[6]);
  EXPECT_TRUE(node.attrs.flag("documents"));
  EXPECT_TRUE(node.attrs.flag("placed"));
}

TEST(AttentionBlockTest, TokensInTheirOrderNeedNoPositions) {
  const ir::Graph graph = block_of({});
  EXPECT_EQ(attention_of(graph).operands.size(), 5U);
  EXPECT_FALSE(attention_of(graph).attrs.has("placed"));
  EXPECT_TRUE(changes_of(graph).empty()) << "one chip";
}

TEST(AttentionBlockTest, ARingChangesNothingBetweenEnterAndLeave) {
  EXPECT_EQ(changes_of(block_of(over_context_and_model())),
            (std::vector<std::string>{"-,context+model,- => -,context,-", "-,context,- => -,context+model,-"}));
}

TEST(AttentionBlockTest, WithoutARingTokensAreSwappedForHeads) {
  Parallel parallel = over_context_and_model();
  parallel.ring_attention = false;
  EXPECT_EQ(changes_of(block_of(parallel)),
            (std::vector<std::string>{"-,context+model,- => -,context,-",          // enter
                                      "-,context,model,- => -,-,model+context,-",  // q
                                      "-,context,model,- => -,-,model,-",          // k
                                      "-,context,model,- => -,-,model,-",          // v
                                      "-,-,model+context,- => -,context,model,-",  // out
                                      "-,context,- => -,context+model,-"}));       // leave
}

}  // namespace
}  // namespace megacpp::blocks
