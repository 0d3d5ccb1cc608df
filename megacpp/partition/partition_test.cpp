// SPDX-License-Identifier: Apache-2.0
// Programs that partitioning refuses. What it leaves of others: tests/golden/passes/partition.
#include "megacpp/partition/partition.h"

#include <gtest/gtest.h>

#include "megacpp/ir/text.h"
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
