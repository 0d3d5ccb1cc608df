// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/rewrite.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::schedule {
namespace {

ir::Graph long_chain() {
  ir::Graph graph("chain");
  ops::Builder builder(graph);
  builder.set_scope("block00.A");
  ir::ValueId value = builder.input("x", {ir::DType::f32, {2, 3}}, ir::Role::batch);
  for (int i = 0; i < 100; ++i) value = builder.exp(value);
  graph.add_output({.name = "y", .value = value, .donated = "x"});
  return graph;
}

TEST(RewriterTest, CopyingEveryNodeLeavesTheSameGraph) {
  const ir::Graph graph = long_chain();
  Rewriter rewriter(graph);
  for (const ir::Node& node : graph.nodes()) rewriter.copy(node);
  EXPECT_EQ(ir::print(rewriter.finish()), ir::print(graph));
}

// Passes rewrite graphs of tens of thousands of nodes, one after the other.
TEST(RewriterTest, AGraphThatDoesNotGrowMovesNoNode) {
  const ir::Graph graph = long_chain();
  Rewriter rewriter(graph);
  rewriter.copy(graph.nodes()[0]);
  const ir::Node* const first = rewriter.graph().nodes().data();
  const ir::Value* const value = rewriter.graph().values().data();
  for (size_t n = 1; n < graph.nodes().size(); ++n) rewriter.copy(graph.nodes()[n]);
  EXPECT_EQ(rewriter.graph().nodes().data(), first);
  EXPECT_EQ(rewriter.graph().values().data(), value);
}

TEST(RewriterTest, ReadersAreNodesAndOutputs) {
  ir::Graph graph("readers");
  ops::Builder builder(graph);
  const ir::ValueId x = builder.input("x", {ir::DType::f32, {3}}, ir::Role::batch);
  const ir::ValueId square = builder.mul(x, x), sum = builder.add(square, x);
  graph.add_output({.name = "sum", .value = sum});
  graph.add_output({.name = "again", .value = sum});
  const std::vector<size_t> readers = count_readers(graph);
  EXPECT_EQ(readers, (std::vector<size_t>{2, 1, 2})) << "a node that reads a value twice counts once";
  const auto users = graph.users();
  for (size_t v = 0; v + 1 < readers.size(); ++v) EXPECT_EQ(readers[v], users[v].size());
}

}  // namespace
}  // namespace megacpp::schedule
