// SPDX-License-Identifier: Apache-2.0
// What every pass promises, on random graphs: the results do not change, the graph stays legal, the same input gives
// the same text.
#include <gtest/gtest.h>

#include <functional>

#include "megacpp/ir/text.h"
#include "megacpp/ops/spmd_evaluator.h"
#include "megacpp/ops/verify.h"
#include "megacpp/schedule/decompose.h"
#include "megacpp/schedule/fold_accumulation.h"
#include "megacpp/schedule/fold_sums.h"
#include "megacpp/schedule/fuse.h"
#include "megacpp/schedule/merge_siblings.h"
#include "megacpp/schedule/narrow_results.h"
#include "megacpp/schedule/order.h"
#include "megacpp/schedule/recompute_cheap.h"
#include "megacpp/schedule/remove_dead.h"
#include "tests/support/plain_target.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace megacpp::schedule {
namespace {

using Pass = std::function<ir::Graph(const ir::Graph&)>;

constexpr uint64_t kGraphs = 150;

void expect_results_kept(const Pass& pass, ops::Form leaves) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph before = testing_support::random_graph(seed, 5 + static_cast<int>(seed % 60));
    ops::verify(before, ops::Form::built);
    const ir::Graph after = pass(before);
    ASSERT_NO_THROW(ops::verify(after, leaves)) << ir::print(before) << ir::print(after);
    EXPECT_EQ(ir::print(after), ir::print(pass(before)));
    const auto inputs = testing_support::random_inputs(before, "seed" + std::to_string(seed));
    const auto wanted = ops::evaluate(before, inputs, ops::Rounding::none);
    const auto got = ops::evaluate(after, inputs, ops::Rounding::none);
    ASSERT_EQ(got.size(), wanted.size());
    for (const auto& [name, tensor] : wanted)
      ASSERT_TRUE(testing_support::is_close(got.at(name), tensor, 1e-12)) << name << "\n"
                                                                          << ir::print(before) << ir::print(after);
  }
}

TEST(PassesTest, RemoveDeadKeepsResults) { expect_results_kept(remove_dead, ops::Form::built); }

TEST(PassesTest, FoldAccumulationKeepsResults) { expect_results_kept(fold_accumulation, ops::Form::built); }

TEST(PassesTest, FoldSumsKeepsResults) {
  expect_results_kept([](const ir::Graph& g) { return fold_sums(g, testing_support::plain_target()); },
                      ops::Form::built);
}

TEST(PassesTest, NarrowResultsKeepsResults) {
  expect_results_kept([](const ir::Graph& g) { return narrow_results(g, testing_support::plain_target()); },
                      ops::Form::built);
}

TEST(PassesTest, FuseKeepsResults) { expect_results_kept(fuse, ops::Form::clustered); }

TEST(PassesTest, LowerElementwiseKeepsResults) { expect_results_kept(lower_elementwise, ops::Form::fused); }

TEST(PassesTest, OrderKeepsResults) { expect_results_kept(order_for_low_peak, ops::Form::built); }

// As cheap as arithmetic may be: bytes alone decide.
constexpr double kFreeArithmetic = 1e9;

ir::Graph in_clusters(const ir::Graph& graph) { return lower_elementwise(fuse(fold_accumulation(remove_dead(graph)))); }
ir::Graph recomputed(const ir::Graph& graph) { return recompute_cheap(in_clusters(graph), kFreeArithmetic); }
ir::Graph merged(const ir::Graph& graph) { return merge_siblings(in_clusters(graph)); }

TEST(PassesTest, RecomputeCheapKeepsResults) { expect_results_kept(recomputed, ops::Form::fused); }

TEST(PassesTest, MergeSiblingsKeepsResults) { expect_results_kept(merged, ops::Form::fused); }

TEST(PassesTest, AllTogetherKeepResults) {
  expect_results_kept([](const ir::Graph& g) { return order_for_low_peak(merge_siblings(recomputed(g))); },
                      ops::Form::fused);
}

int64_t moved_bytes(const ir::Graph& graph) {
  int64_t bytes = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != "fused") continue;
    for (const ir::ValueId operand : node.operands) bytes += graph.type(operand).bytes();
    for (const ir::ValueId result : node.results) bytes += graph.type(result).bytes();
  }
  return bytes;
}

// How many random graphs move fewer bytes by the pass, of which none may move or hold more.
size_t count_improved(const Pass& pass) {
  size_t improved = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph before = in_clusters(testing_support::random_graph(seed, 5 + static_cast<int>(seed % 60)));
    const ir::Graph after = pass(before);
    EXPECT_LE(moved_bytes(after), moved_bytes(before)) << ir::print(before) << ir::print(after);
    EXPECT_LE(simulated_peak(after), simulated_peak(before)) << ir::print(before) << ir::print(after);
    improved += moved_bytes(after) < moved_bytes(before) ? 1 : 0;
  }
  return improved;
}

TEST(PassesTest, RecomputeCheapNeverMovesOrHoldsMore) {
  EXPECT_GE(count_improved([](const ir::Graph& g) { return recompute_cheap(g, kFreeArithmetic); }), kGraphs / 10);
}

TEST(PassesTest, MergeSiblingsNeverMovesOrHoldsMore) { EXPECT_GE(count_improved(merge_siblings), kGraphs / 10); }

TEST(PassesTest, OrderNeverRaisesThePeak) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph graph = testing_support::random_graph(seed, 40);
    EXPECT_LE(simulated_peak(order_for_low_peak(graph)), simulated_peak(graph));
  }
}

// A chip's program with work to fuse before, around and after its collectives.
constexpr const char* kChipProgram = R"(graph "chip" {
  %0 = input() {dtype="f32", name="x", shape=[4,6]} : f32[4,6] #batch
  %1 = input() {dtype="f32", name="sum", shape=[12,6]} : f32[12,6] #gradient
  %2 = exp(%0) : f32[4,6]
  %3 = constant() {dtype="f32", shape=[6], value=2.0} : f32[6]
  %4, %5 = all_reduce(%2, %3) {axes="x", kind="sum", parts=3} : f32[4,6], f32[6] #collective
  %6 = mul(%2, %4) : f32[4,6]
  %7 = broadcast(%5) {dims=[1], shape=[4,6]} : f32[4,6]
  %8 = sub(%6, %7) : f32[4,6]
  %9 = all_gather(%8) {axes="x", dims=[0], parts=3} : f32[12,6] #collective
  %10 = add(%1, %9) : f32[12,6]
  %11 = neg(%9) : f32[12,6]
  %12 = reduce_scatter(%11) {axes="x", dims=[1], parts=3} : f32[12,2] #collective
  %13 = shard_index() {axes="x", parts=3} : i32[] #collective
  %14 = convert(%13) {dtype="f32"} : f32[]
  %15 = broadcast(%14) {dims=[], shape=[12,2]} : f32[12,2]
  %16 = mul(%12, %15) : f32[12,2]
  %17 = reduce(%16) {dims=[1], kind="sum"} : f32[12]
  output "y" = %17
  output "sum" = %10 donates "sum"
}
)";

size_t count_collectives(const ir::Graph& graph) {
  size_t count = 0;
  for (const ir::Node& node : graph.nodes()) count += ops::op_def(node.op).is_collective ? 1 : 0;
  return count;
}

TEST(PassesTest, CollectivesAreKernelsOfTheirOwn) {
  const ir::Graph before = ir::parse(kChipProgram);
  ops::verify(before, ops::Form::built);
  const Target runs_nothing{.name = "test",
                            .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::no("test"); },
                            .workspace_bytes = {}};
  const Decomposed decomposed = decompose(remove_dead(before), runs_nothing);
  EXPECT_TRUE(decomposed.fallbacks.empty());
  const ir::Graph after = order_for_low_peak(lower_elementwise(fuse(fold_accumulation(decomposed.graph))));
  ops::verify(after, ops::Form::fused);
  EXPECT_EQ(count_collectives(after), count_collectives(before));

  const ir::Mesh mesh({{"x", 3}});
  std::vector<std::map<std::string, ops::Tensor>> inputs;
  for (int chip = 0; chip < 3; ++chip)
    inputs.push_back(testing_support::random_inputs(before, "chip" + std::to_string(chip)));
  const auto wanted = ops::evaluate_spmd(before, mesh, inputs, ops::Rounding::none);
  const auto got = ops::evaluate_spmd(after, mesh, inputs, ops::Rounding::none);
  for (size_t chip = 0; chip < 3; ++chip)
    for (const auto& [name, tensor] : wanted[chip])
      EXPECT_TRUE(testing_support::is_close(got[chip].at(name), tensor, 1e-12)) << name << "\n" << ir::print(after);
}

}  // namespace
}  // namespace megacpp::schedule
