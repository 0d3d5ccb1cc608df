// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/hardware_target.h"

#include <gtest/gtest.h>

#include "megacpp/ops/builder.h"
#include "megacpp/schedule/decompose.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

schedule::Target target_for(const char* chip) {
  return hardware_target(hw::device_of(hw::find_chip(chip)), testing_support::test_kernels());
}

/// A node of attention over so many tokens, as a plan for the chip has it.
ir::Graph planned_attention(const schedule::Target& target, int64_t tokens, int64_t head_dim = 64) {
  ir::Graph graph("attention");
  ops::Builder builder(graph);
  const ir::ValueId x = builder.input("x", {ir::DType::bf16, {1, tokens, 2, head_dim}}, ir::Role::batch);
  const std::vector<ir::ValueId> results =
      builder.node("attention", {x, x, x}, {{"causal", int64_t{1}}, {"scale", 0.125}});
  graph.add_output({.name = "y", .value = results[0]});
  return schedule::decompose(graph, target).graph;
}

int64_t workspace(const schedule::Target& target, const ir::Graph& graph) {
  const ir::Node& node = graph.nodes()[1];
  const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
  return target.workspace_bytes(node.op, {operands, results, node.attrs});
}

TEST(HardwareTargetTest, LongAttentionOfATpuIsTheLoopThatXlaGets) {
  const schedule::Target target = target_for("v6e");
  const ir::Graph longer = planned_attention(target, 32768), shorter = planned_attention(target, 4096);
  EXPECT_EQ(longer.nodes()[1].op, "blocked_attention");
  EXPECT_GT(workspace(target, longer), 2 * 512 * 512 * 4) << "scores of a pair of blocks";
  EXPECT_EQ(shorter.nodes()[1].op, "attention");
  EXPECT_EQ(workspace(target, shorter), 2 * 512 * 4096 * (4 + 2) + 2 * 512 * 64 * 4)
      << "scores of the last block of queries, which sees all keys, in f32 and bf16; its rows";
}

// Heads of 12 elements: sums of queries are f32[1,2,512,12], whose rows of 512 come in tiles of 8, so that 16 are
// stored for 12.
TEST(HardwareTargetTest, TemporariesHaveThePaddingOfTiles) {
  const schedule::Target target = target_for("v6e");
  const int64_t sums = 2 * 512 * 4, blocks = 32768 / 512;
  const int64_t rest = 2 * 512 * 512 * (4 + 2) + 2 * blocks * blocks * 4;
  EXPECT_EQ(workspace(target, planned_attention(target, 32768, 16)), rest + 2 * sums * 16);
  EXPECT_EQ(workspace(target, planned_attention(target, 32768, 12)), rest + 2 * sums * 16);
}

TEST(HardwareTargetTest, GpusHaveKernelsForAttention) {
  const schedule::Target target = target_for("h100");
  const ir::Graph graph = planned_attention(target, 32768);
  EXPECT_EQ(graph.nodes()[1].op, "attention");
  EXPECT_EQ(workspace(target, graph), 0);
}

}  // namespace
}  // namespace megacpp::fit
