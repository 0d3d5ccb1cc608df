// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/cut_stages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"
#include "tests/support/errors.h"

namespace megacpp::partition {
namespace {

using ir::ValueId;
using testing_support::problem_of;

// A tied table, a rotation table that both blocks read, a statistic of the first block that only the loss reads.
constexpr const char* kTwoBlocks = R"(graph "m" {
  %0 = input() {dtype="i32", name="batch.ids", shape=[3]} : i32[3] @batch #batch
  %1 = input() {dtype="i32", name="batch.labels", shape=[3]} : i32[3] @batch #batch
  %2 = iota() {dim=0, dtype="f32", shape=[3,4]} : f32[3,4] @rope
  %3 = cos(%2) : f32[3,4] @rope
  %4 = input() {dtype="f32", name="embed.weight", shape=[5,4]} : f32[5,4] @embed #weight
  %5 = take(%4, %0) : f32[3,4] @embed
  %6 = mul(%5, %3) : f32[3,4] @block00.A
  %7 = add(%5, %6) : f32[3,4] @block00.A
  %8 = reduce(%6) {dims=[1], kind="sum"} : f32[3] @block00.A
  %9 = mul(%7, %3) : f32[3,4] @block01.A.core
  %10 = dot(%9, %4) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : f32[3,5] @head
  %11 = convert(%1) {dtype="f32"} : f32[3] @loss
  %12 = add(%8, %11) : f32[3] @loss
  %13 = reduce(%10) {dims=[0,1], kind="sum"} : f32[] @loss
  output "loss" = %13
  output "statistic" = %12
}
)";

std::string printed_stages(const StageCut& cut) {
  std::string text;
  for (const Stage& stage : cut.stages) text += ir::print(stage.graph);
  return text;
}

TEST(CutStagesTest, CarriesWhatCrossesAndRepeatsWhatIsShared) {
  const StageCut cut = cut_stages(ir::parse(kTwoBlocks), ValueId{13}, {1});
  EXPECT_EQ(printed_stages(cut), R"(graph "m.stage0" {
  %0 = input() {dtype="i32", name="batch.ids", shape=[3]} : i32[3] @batch #batch
  %1 = iota() {dim=0, dtype="f32", shape=[3,4]} : f32[3,4] @rope
  %2 = cos(%1) : f32[3,4] @rope
  %3 = input() {dtype="f32", name="embed.weight", shape=[5,4]} : f32[5,4] @embed #weight
  %4 = take(%3, %0) : f32[3,4] @embed
  %5 = mul(%4, %2) : f32[3,4] @block00.A
  %6 = add(%4, %5) : f32[3,4] @block00.A
  %7 = reduce(%5) {dims=[1], kind="sum"} : f32[3] @block00.A
  output "carry.0" = %6
  output "carry.1" = %7
}
graph "m.stage1" {
  %0 = input() {dtype="i32", name="batch.labels", shape=[3]} : i32[3] @batch #batch
  %1 = iota() {dim=0, dtype="f32", shape=[3,4]} : f32[3,4] @rope
  %2 = cos(%1) : f32[3,4] @rope
  %3 = input() {dtype="f32", name="embed.weight", shape=[5,4]} : f32[5,4] @embed #weight
  %4 = input() {dtype="f32", name="carry.0", shape=[3,4]} : f32[3,4] @block00.A #activation
  %5 = input() {dtype="f32", name="carry.1", shape=[3]} : f32[3] @block00.A #activation
  %6 = mul(%4, %2) : f32[3,4] @block01.A.core
  %7 = dot(%6, %3) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : f32[3,5] @head
  %8 = convert(%0) {dtype="f32"} : f32[3] @loss
  %9 = add(%5, %8) : f32[3] @loss
  %10 = reduce(%7) {dims=[0,1], kind="sum"} : f32[] @loss
  output "loss" = %10
  output "statistic" = %9
}
)");
  const std::vector<Carry> carries = {{"carry.0", true}, {"carry.1", false}};
  EXPECT_EQ(cut.stages[0].carried_out, carries);
  EXPECT_EQ(cut.stages[1].carried_in, carries);
  EXPECT_TRUE(cut.stages[0].carried_in.empty());
  EXPECT_TRUE(cut.stages[1].carried_out.empty());
  EXPECT_EQ(cut.shared, (std::vector<SharedWeight>{{"embed.weight", {0, 1}}}));
  EXPECT_EQ(cut.stages[1].values[13], ValueId{10});
  EXPECT_EQ(cut.stages[0].values[13].index, UINT32_MAX);
}

TEST(CutStagesTest, NoCotangentComesBackWhereAllWeightsBeforeTheCutAreFrozen) {
  const StageCut cut = cut_stages(ir::parse(kTwoBlocks), ValueId{13}, {1}, {"embed.weight"});
  const std::vector<Carry> carries = {{"carry.0", false}, {"carry.1", false}};
  EXPECT_EQ(cut.stages[0].carried_out, carries);
  EXPECT_EQ(cut.stages[1].carried_in, carries);
}

TEST(CutStagesTest, OneStageIsTheWholeGraph) {
  const StageCut cut = cut_stages(ir::parse(kTwoBlocks), ValueId{13}, {});
  std::string whole = kTwoBlocks;
  whole.replace(whole.find("\"m\""), 3, "\"m.stage0\"");
  EXPECT_EQ(printed_stages(cut), whole);
  EXPECT_TRUE(cut.shared.empty());
}

// A chain of square products, one per block, of the given sizes; embed and head in front and behind.
ir::Graph chain(int64_t embed, const std::vector<int64_t>& blocks, int64_t head) {
  ir::Graph graph("chain");
  ops::Builder b(graph);
  const auto product = [&](const std::string& scope, int64_t size) {
    b.set_scope(scope);
    const ValueId weight = b.input(scope + ".weight", {ir::DType::f32, {size, 1}}, ir::Role::weight);
    const ValueId row = b.constant(1.0, {1, size});
    return b.matmul(row, weight);  // 2 * size operations
  };
  ValueId x = product("embed", embed);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ValueId y = product("block0" + std::to_string(i) + ".E", blocks[i]);
    x = b.add(x, y);
  }
  const ValueId y = product("head", head);
  graph.add_output({.name = "loss", .value = b.add(x, y)});
  return graph;
}

using Cuts = std::vector<int64_t>;

TEST(CutStagesTest, BalancedCutsCountEmbeddingAndHead) {
  EXPECT_EQ(balanced_cuts(chain(1, {100, 100, 100, 100}, 1), 2), (Cuts{2}));
  EXPECT_EQ(balanced_cuts(chain(1, {100, 100, 100, 100}, 1), 4), (Cuts{1, 2, 3}));
  EXPECT_EQ(balanced_cuts(chain(1, {100, 100, 100, 100}, 200), 2), (Cuts{3}));
  EXPECT_EQ(balanced_cuts(chain(300, {100, 100, 100, 100}, 1), 2), (Cuts{1}));
  EXPECT_EQ(balanced_cuts(chain(1, {100, 100}, 1), 1), (Cuts{}));
}

TEST(CutStagesTest, StagesBesideTheLargestAreEven) {
  EXPECT_EQ(balanced_cuts(chain(1, {100, 100, 100, 100, 1000}, 1), 3), (Cuts{2, 4}));
}

TEST(CutStagesTest, CutsOfThePatternAreTakenWhenTheyFit) {
  const ir::Graph graph = chain(1, {100, 100, 100, 100}, 1);
  EXPECT_EQ(balanced_cuts(graph, 2, {1}), (Cuts{1}));
  EXPECT_EQ(balanced_cuts(graph, 2, {1, 2}), (Cuts{2}));
}

// Slow and obvious: every way to choose the cuts.
TEST(CutStagesTest, BalancedCutsAreBestOfAll) {
  const std::vector<int64_t> blocks = {70, 20, 90, 10, 40, 60, 30, 80};
  const ir::Graph graph = chain(50, blocks, 110);
  std::vector<int64_t> costs = blocks;  // halves: 2 operations a row, and the block's addition is the same everywhere
  costs.front() += 50;
  costs.back() += 110;
  const auto largest = [&](const Cuts& cuts) {
    int64_t most = 0, sum = 0;
    for (size_t i = 0; i < costs.size(); ++i) {
      if (std::find(cuts.begin(), cuts.end(), static_cast<int64_t>(i)) != cuts.end()) sum = 0;
      most = std::max(most, sum += costs[i]);
    }
    return most;
  };
  for (size_t stages = 1; stages <= costs.size(); ++stages) {
    int64_t best = INT64_MAX;
    for (uint32_t mask = 0; mask < 1U << (costs.size() - 1); ++mask) {
      Cuts cuts;
      for (size_t bit = 0; bit + 1 < costs.size(); ++bit)
        if (mask >> bit & 1U) cuts.push_back(static_cast<int64_t>(bit) + 1);
      if (cuts.size() + 1 == stages) best = std::min(best, largest(cuts));
    }
    EXPECT_EQ(largest(balanced_cuts(graph, static_cast<int64_t>(stages))), best) << stages;
  }
}

TEST(CutStagesTest, MoreStagesThanBlocksAreRefused) {
  const ir::Graph graph = chain(1, {100, 100}, 1);
  const base::Problem problem = problem_of(base::Code::E1005, [&] { balanced_cuts(graph, 3); });
  EXPECT_EQ(problem.got, "3 stages over 2 blocks");
  EXPECT_EQ(problem.next, "take at most 2, or a deeper model");
  EXPECT_EQ(problem_of(base::Code::E1005, [&] { balanced_cuts(graph, 0); }).next, "take 1");
  EXPECT_EQ(testing_support::error_of([&] { cut_stages(graph, ValueId{0}, {2}); }).code(), base::Code::E9001);
}

}  // namespace
}  // namespace megacpp::partition
