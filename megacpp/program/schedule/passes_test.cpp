// SPDX-License-Identifier: Apache-2.0
// What every pass promises, on random graphs: the results do not change, the graph stays legal, the same input gives
// the same text.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/schedule/decompose.h"
#include "megacpp/program/schedule/fold_accumulation.h"
#include "megacpp/program/schedule/fold_sums.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/merge_siblings.h"
#include "megacpp/program/schedule/narrow_results.h"
#include "megacpp/program/schedule/order.h"
#include "megacpp/program/schedule/recompute_cheap.h"
#include "megacpp/program/schedule/remove_dead.h"
#include "tests/support/plain_target.h"
#include "tests/support/random_graph.h"
#include "tests/support/spmd_evaluator.h"
#include "tests/support/tensors.h"

namespace megacpp::schedule {
namespace {

using Pass = std::function<ir::Graph(const ir::Graph&)>;
using testing_support::RandomParts;

constexpr uint64_t kGraphs = 150;

ir::Graph graph_of(uint64_t seed, const RandomParts& parts) {
  return testing_support::random_graph(seed, 5 + static_cast<int>(seed % 60), parts);
}

// To the bit where all is rounded as it is stored; else but for the order of sums.
void expect_same_results(uint64_t seed, const ir::Graph& got, const ir::Graph& wanted, ops::Rounding rounding) {
  const auto inputs = testing_support::random_inputs(wanted, "seed" + std::to_string(seed));
  const auto before = ops::evaluate(wanted, inputs, rounding), after = ops::evaluate(got, inputs, rounding);
  const double tolerance = rounding == ops::Rounding::none ? 1e-12 : 0.0;
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, tensor] : before)
    ASSERT_TRUE(testing_support::is_close(after.at(name), tensor, tolerance)) << name << "\n"
                                                                              << ir::print(wanted) << ir::print(got);
}

void expect_results_kept(const Pass& pass, ops::Form leaves, const RandomParts& parts = {}) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph before = graph_of(seed, parts);
    ops::verify(before, ops::Form::built);
    const ir::Graph after = pass(before);
    ASSERT_NO_THROW(ops::verify(after, leaves)) << ir::print(before) << ir::print(after);
    EXPECT_EQ(ir::print(after), ir::print(pass(before)));
    expect_same_results(seed, after, before, ops::Rounding::none);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// A pass that finds nothing to do keeps all results.
size_t count_changed(const Pass& pass, const RandomParts& parts) {
  size_t changed = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph before = graph_of(seed, parts);
    changed += ir::print(pass(before)) == ir::print(before) ? 0 : 1;
  }
  return changed;
}

TEST(PassesTest, RemoveDeadKeepsResults) { expect_results_kept(remove_dead, ops::Form::built); }

TEST(PassesTest, FoldAccumulationKeepsResults) { expect_results_kept(fold_accumulation, ops::Form::built); }

constexpr RandomParts kSums{.sums = true};
constexpr RandomParts kHalves{.bf16 = true};
constexpr RandomParts kAll{.sums = true, .bf16 = true};

ir::Graph with_sums_folded(const ir::Graph& graph) { return fold_sums(graph, testing_support::plain_target()); }
ir::Graph with_results_narrowed(const ir::Graph& graph) {
  return narrow_results(graph, testing_support::plain_target());
}

TEST(PassesTest, FoldSumsKeepsResults) {
  for (const RandomParts& parts : {RandomParts{}, kSums, kAll})
    expect_results_kept(with_sums_folded, ops::Form::built, parts);
  EXPECT_GE(count_changed(with_sums_folded, kSums), kGraphs / 10);
}

// As simulated_peak(), where a reshape has the bytes of its operand.
int64_t peak_without_views(const ir::Graph& graph) {
  std::vector<uint32_t> place(graph.values().size()), last(graph.values().size());  // by value
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    for (const ir::ValueId result : node.results) {
      place[result.index] = node.op == "reshape" ? place[node.operands[0].index] : result.index;
      last[result.index] = n;
    }
    for (const ir::ValueId operand : node.operands) last[place[operand.index]] = n;
  }
  for (const ir::Output& output : graph.outputs())
    last[place[output.value.index]] = static_cast<uint32_t>(graph.nodes().size());
  std::vector<int64_t> freed(graph.nodes().size() + 1);  // behind each node
  int64_t alive = 0, peak = 0;
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    for (const ir::ValueId result : node.results) {
      if (node.op == ir::kInputOp || place[result.index] != result.index) continue;
      alive += graph.type(result).bytes();
      freed[last[result.index]] += graph.type(result).bytes();
    }
    peak = std::max(peak, alive);
    alive -= freed[n];
  }
  return peak;
}

TEST(PassesTest, FoldSumsNeverHoldsMore) {
  for (const RandomParts& parts : {kSums, kAll})
    for (uint64_t seed = 0; seed < kGraphs; ++seed) {
      const ir::Graph before = graph_of(seed, parts), after = with_sums_folded(before);
      ASSERT_LE(peak_without_views(after), peak_without_views(before)) << ir::print(before) << ir::print(after);
    }
}

TEST(PassesTest, NarrowResultsKeepsResults) {
  for (const RandomParts& parts : {kHalves, kAll}) expect_results_kept(with_results_narrowed, ops::Form::built, parts);
  EXPECT_GE(count_changed(with_results_narrowed, kHalves), kGraphs / 10);
}

TEST(PassesTest, NarrowResultsRoundsOnce) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph before = graph_of(seed, kHalves);
    expect_same_results(seed, with_results_narrowed(before), before, ops::Rounding::to_dtype);
    if (HasFatalFailure()) return;
  }
}

TEST(PassesTest, FuseKeepsResults) { expect_results_kept(fuse, ops::Form::clustered); }

TEST(PassesTest, LowerElementwiseKeepsResults) { expect_results_kept(lower_elementwise, ops::Form::fused); }

TEST(PassesTest, OrderKeepsResults) { expect_results_kept(order_for_low_peak, ops::Form::built); }

// As cheap as arithmetic may be: bytes alone decide.
constexpr double kFreeArithmetic = 1e9;

ir::Graph in_clusters(const ir::Graph& graph) { return lower_elementwise(fuse(fold_accumulation(remove_dead(graph)))); }
ir::Graph recomputed(const ir::Graph& graph) { return recompute_cheap(in_clusters(graph), kFreeArithmetic); }
ir::Graph merged(const ir::Graph& graph) { return merge_siblings(in_clusters(graph)); }

TEST(PassesTest, RecomputeCheapKeepsResults) {
  for (const RandomParts& parts : {RandomParts{}, kHalves}) expect_results_kept(recomputed, ops::Form::fused, parts);
}

TEST(PassesTest, MergeSiblingsKeepsResults) {
  for (const RandomParts& parts : {RandomParts{}, kHalves}) expect_results_kept(merged, ops::Form::fused, parts);
}

TEST(PassesTest, AllTogetherKeepResults) {
  expect_results_kept([](const ir::Graph& g) { return order_for_low_peak(merge_siblings(recomputed(g))); },
                      ops::Form::fused);
  expect_results_kept(
      [](const ir::Graph& g) {
        return order_for_low_peak(merge_siblings(recomputed(with_sums_folded(with_results_narrowed(g)))));
      },
      ops::Form::fused, kAll);
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
size_t count_improved(const Pass& pass, const RandomParts& parts = {}) {
  size_t improved = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph before = in_clusters(graph_of(seed, parts));
    const ir::Graph after = pass(before);
    EXPECT_LE(moved_bytes(after), moved_bytes(before)) << ir::print(before) << ir::print(after);
    EXPECT_LE(simulated_peak(after), simulated_peak(before)) << ir::print(before) << ir::print(after);
    improved += moved_bytes(after) < moved_bytes(before) ? 1 : 0;
  }
  return improved;
}

TEST(PassesTest, RecomputeCheapNeverMovesOrHoldsMore) {
  for (const RandomParts& parts : {RandomParts{}, kHalves})
    EXPECT_GE(count_improved([](const ir::Graph& g) { return recompute_cheap(g, kFreeArithmetic); }, parts),
              kGraphs / 10);
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
  const auto wanted = testing_support::evaluate_spmd(before, mesh, inputs, ops::Rounding::none);
  const auto got = testing_support::evaluate_spmd(after, mesh, inputs, ops::Rounding::none);
  for (size_t chip = 0; chip < 3; ++chip)
    for (const auto& [name, tensor] : wanted[chip])
      EXPECT_TRUE(testing_support::is_close(got[chip].at(name), tensor, 1e-12)) << name << "\n" << ir::print(after);
}

}  // namespace
}  // namespace megacpp::schedule
