// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/hardware_target.h"

#include <gtest/gtest.h>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/decompose.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

schedule::Target target_for(const char* chip, const std::optional<XlaForms>& xla) {
  return hardware_target(hw::device_of(hw::find_chip(chip)), testing_support::test_kernels(), xla);
}

/// A node of attention of q, k and v of that shape, as a plan for the chip has it.
ir::Graph planned_attention(const schedule::Target& target, const ir::Shape& shape) {
  ir::Graph graph("attention");
  ops::Builder builder(graph);
  const ir::ValueId x = builder.input("x", {ir::DType::bf16, shape}, ir::Role::batch);
  const std::vector<ir::ValueId> results =
      builder.node("attention", {x, x, x}, {{"causal", int64_t{1}}, {"scale", 0.125}});
  graph.add_output({.name = "y", .value = results[0]});
  return schedule::decompose(graph, target).graph;
}

/// Of one sequence, with two heads.
ir::Graph planned_attention(const schedule::Target& target, int64_t tokens, int64_t head_dim = 64) {
  return planned_attention(target, {1, tokens, 2, head_dim});
}

int64_t workspace(const schedule::Target& target, const ir::Graph& graph) {
  const ir::Node& node = graph.nodes()[1];
  const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
  return target.workspace_bytes(node.op, {operands, results, node.attrs});
}

TEST(HardwareTargetTest, LongAttentionOfATpuIsTheLoopThatXlaGets) {
  const schedule::Target target = target_for("v6e", XlaForms{});
  const ir::Graph longer = planned_attention(target, 32768), shorter = planned_attention(target, 4096);
  EXPECT_EQ(longer.nodes()[1].op, "blocked_attention");
  EXPECT_GT(workspace(target, longer), 2 * 512 * 512 * 4) << "scores of a pair of blocks";
  EXPECT_EQ(shorter.nodes()[1].op, "attention");
  EXPECT_EQ(workspace(target, shorter), 2 * 512 * 4096 * (4 + 2) + 2 * 512 * 64 * 4)
      << "scores of the last block of queries, which sees all keys, in f32 and bf16; its rows";
}

// Sums of queries are f32[3,3,512,12]: no dimension but the rows of 512 fills tiles, so that 4 are stored for 3, or 16
// for 12.
TEST(HardwareTargetTest, TemporariesHaveThePaddingOfTiles) {
  const schedule::Target target = target_for("v6e", XlaForms{});
  const int64_t blocks = 32768 / 512, sums = 3 * 3 * 512 * 16 * 4;
  EXPECT_EQ(workspace(target, planned_attention(target, {3, 32768, 3, 12})),
            3 * 3 * 512 * 512 * (4 + 2) + 2 * blocks * blocks * 4 + 2 * sums);
}

TEST(HardwareTargetTest, KernelsOfOursForGpusHaveNoTemporaries) {
  const schedule::Target target = target_for("h100", std::nullopt);
  const ir::Graph graph = planned_attention(target, 32768);
  EXPECT_EQ(graph.nodes()[1].op, "attention");
  EXPECT_EQ(workspace(target, graph), 0);
}

// cuDNN takes causal attention of bf16 with heads that are multiples of 8.
TEST(HardwareTargetTest, OnGpusXlaCallsWhatCudnnTakesAndLoopsOverTheRest) {
  const schedule::Target calls = target_for("h100", XlaForms{.has_calls = true});
  const ir::Graph taken = planned_attention(calls, 32768), other = planned_attention(calls, 32768, 12);
  EXPECT_EQ(taken.nodes()[1].op, "attention");
  EXPECT_EQ(workspace(calls, taken), 0);
  EXPECT_EQ(other.nodes()[1].op, "blocked_attention");
  EXPECT_GT(workspace(calls, other), 0);
  const schedule::Target none = target_for("h100", XlaForms{.has_calls = false});
  EXPECT_EQ(planned_attention(none, 32768).nodes()[1].op, "blocked_attention");
}

TEST(HardwareTargetTest, WhereXlaDividesProgramsAttentionIsUnrolled) {
  const schedule::Target target = target_for("v6e", XlaForms{.has_loops = false});
  const ir::Graph graph = planned_attention(target, 8192);
  EXPECT_EQ(graph.nodes()[1].op, "attention");
  EXPECT_EQ(workspace(target, graph), 2 * 512 * 8192 * (4 + 2) + 2 * 512 * 64 * 4);
}

TEST(HardwareTargetTest, AssumptionsSayWhatXlaIsGiven) {
  Assumptions assumptions = testing_support::test_assumptions("h100:1");
  const auto has_loop = [&assumptions] {
    return planned_attention(target_on(assumptions), 32768).nodes()[1].op == "blocked_attention";
  };
  EXPECT_FALSE(has_loop()) << "kernels of ours";
  assumptions.xla_forms = XlaForms{.has_calls = true};
  EXPECT_FALSE(has_loop());
  assumptions.xla_forms = XlaForms{};
  EXPECT_TRUE(has_loop());
  EXPECT_EQ(target_on(assumptions).ops_per_byte, 0);
  assumptions.xla_forms = XlaForms{.fuses_across_passes = true};
  EXPECT_GT(target_on(assumptions).ops_per_byte, 0);
}

}  // namespace
}  // namespace megacpp::fit
