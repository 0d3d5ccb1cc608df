// SPDX-License-Identifier: Apache-2.0
// Programs that partitioning refuses. What it leaves of others: tests/golden/passes/partition.
#include "megacpp/program/partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/ir/text.h"
#include "tests/support/errors.h"

namespace megacpp::partition {
namespace {

const ir::Mesh kSplitModelMesh({{"data", 2}, {"model.0", 2}, {"model.1", 2}});
constexpr int64_t kBytes = 4 * 8 * 4;

// The operands are split against each other: the first decides, the second is gathered over model and sliced over data.
TEST(ImplicitReplicationTest, IsRefusedAboveTheLimitWhereAnotherAxisStillSplitsIt) {
  const ir::Graph graph = ir::parse(R"(graph "sum" {
  %0 = input() {dtype="f32", name="first", shape=[8,4], sharding="data,-"} : f32[8,4] @block00.A #batch
  %1 = input() {dtype="f32", name="second", shape=[8,4], sharding="model.0+model.1,-"} : f32[8,4] @block00.A #batch
  %2 = add(%0, %1) : f32[8,4] @block00.A
  output "y" = %2
}
)");
  const auto limited = [&](int64_t bytes) {
    return partition(graph, kSplitModelMesh, {}, {.max_replicated_bytes = bytes});
  };
  EXPECT_NO_THROW(limited(kBytes / 2));
  const base::Problem problem = testing_support::problem_of(base::Code::E1408, [&] { limited(kBytes / 2 - 1); });
  EXPECT_EQ(problem.where, "second @block00.A, read by add @block00.A");
}

TEST(ImplicitReplicationTest, WhatIsRequestedPasses) {
  const ir::Graph graph = ir::parse(R"(graph "gather" {
  %0 = input() {dtype="f32", name="x", shape=[8,4], sharding="data+model.0,-"} : f32[8,4] #batch
  %1 = reshard(%0) {from="", to="-,-"} : f32[8,4]
  %2 = exp(%1) : f32[8,4]
  output "y" = %2
}
)");
  EXPECT_NO_THROW(partition(graph, kSplitModelMesh, {}, {.max_replicated_bytes = 0}));
}

size_t count_of(const ir::Graph& graph, std::string_view op) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes(), [op](const ir::Node& node) { return node.op == op; }));
}

// The gradient of an embedding whose tokens are split over data and, inside that, over experts: 4 tokens on each of 8
// chips. The rows are wanted split in the same way.
ir::Graph embedding_gradient(int64_t rows) {
  const ir::Mesh mesh({{"data", 2}, {"expert", 4}});
  const std::string shape = "[" + std::to_string(rows) + ",2]";
  const ir::Graph graph = ir::parse(R"(graph "embedding" {
  %0 = input() {dtype="i32", name="ids", shape=[8,4], sharding="data+expert,-"} : i32[8,4] #batch
  %1 = input() {dtype="f32", name="rows", shape=[8,4,2], sharding="data+expert,-,-"} : f32[8,4,2] #activation
  %2 = scatter_add(%0, %1) {shape=)" +
                                    shape + "} : f32" + shape + R"(
  %3 = reshard(%2) {from="data+expert,-", to="data+expert,-"} : f32)" +
                                    shape + R"(
  output "y" = %3
}
)");
  return partition(graph, mesh, {}, {.max_replicated_bytes = 0}).graph;
}

size_t masks_of(const ir::Graph& graph, const ir::Shape& shape) {
  return static_cast<size_t>(std::ranges::count_if(graph.nodes(), [&](const ir::Node& node) {
    return (node.op == "select" || node.op == "broadcast") && graph.type(node.results[0]).shape == shape;
  }));
}

TEST(EmbeddingGradientTest, MoreTokensThanRowsAreScatteredAsPartialSums) {
  const ir::Graph chip = embedding_gradient(16);
  EXPECT_EQ(count_of(chip, "all_gather"), 0u) << "16 rows are less to send than the 32 tokens of all chips";
  EXPECT_EQ(count_of(chip, "reduce_scatter"), 1u);
}

TEST(EmbeddingGradientTest, FewerTokensThanRowsAreGatheredAndThatIsNoAccident) {
  const ir::Graph chip = embedding_gradient(64);
  EXPECT_EQ(count_of(chip, "reduce_scatter"), 0u) << "every chip adds its own rows up";
  EXPECT_EQ(count_of(chip, "all_gather"), 2u) << "tokens and their ids";
  const auto scatter = std::ranges::find(chip.nodes(), "scatter_add", &ir::Node::op);
  ASSERT_NE(scatter, chip.nodes().end());
  const ir::Shape rows = chip.type(scatter->operands[1]).shape;
  EXPECT_EQ(rows, (ir::Shape{8, 4, 2}));
  EXPECT_EQ(masks_of(chip, rows), 0u) << "the index past the last row leaves out what other chips have";
}

TEST(ForwardNodesTest, AProgramWithoutABackwardPassIsForwardToItsEnd) {
  const ir::Graph graph = ir::parse(R"(graph "stage" {
  %0 = input() {dtype="f32", name="x", shape=[8,4], sharding="data,-"} : f32[8,4] #batch
  %1 = exp(%0) : f32[8,4]
  output "carry.0" = %1
}
)");
  for (const size_t forward_nodes : {size_t{1}, size_t{2}}) {
    const Partitioned local = partition(graph, kSplitModelMesh, {}, {.forward_nodes = forward_nodes});
    EXPECT_EQ(local.forward_nodes, forward_nodes);
    EXPECT_EQ(local.graph.nodes().size(), 2u);
  }
}

}  // namespace
}  // namespace megacpp::partition
