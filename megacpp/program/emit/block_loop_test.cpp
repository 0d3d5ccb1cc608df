// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/block_loop.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/emit/function.h"
#include "megacpp/program/emit/module_writer.h"
#include "tests/support/text.h"

namespace megacpp::emit {
namespace {

using testing_support::count_of;

using Names = std::vector<std::string>;

// Blocks that each multiply by a weight and keep the product, then go back over them in reverse with what was kept.
ir::Graph there_and_back(int blocks) {
  std::string text = "graph \"p\" {\n  %0 = input() {dtype=\"f32\", name=\"x\", shape=[4]} : f32[4] @batch #batch\n";
  int next = 1;
  const auto line = [&](const std::string& what, const std::string& scope) {
    text += fmt::format("  %{} = {} : f32[4] @{}\n", next, what, scope);
    return next++;
  };
  std::vector<int> weights, kept;
  for (int b = 0; b < blocks; ++b)
    weights.push_back(line(fmt::format("input() {{dtype=\"f32\", name=\"w{}\", shape=[4]}}", b), "batch"));
  int x = line("exp(%0)", "embed");
  for (int b = 0; b < blocks; ++b) {
    kept.push_back(x);
    x = line(fmt::format("mul(%{}, %{})", x, weights[static_cast<size_t>(b)]), fmt::format("block{:02}.A", b));
  }
  int back = line(fmt::format("exp(%{})", x), "head");
  std::vector<int> gradients(static_cast<size_t>(blocks));
  for (int b = blocks - 1; b >= 0; --b) {
    const size_t at = static_cast<size_t>(b);
    gradients[at] = line(fmt::format("mul(%{}, %{})", back, kept[at]), fmt::format("block{:02}.A", b));
    back = line(fmt::format("mul(%{}, %{})", back, weights[at]), fmt::format("block{:02}.A", b));
  }
  for (int b = 0; b < blocks; ++b)
    text += fmt::format("  output \"w{}\" = %{} donates \"w{}\"\n", b, gradients[static_cast<size_t>(b)], b);
  return ir::parse(text + fmt::format("  output \"y\" = %{}\n}}\n", back));
}

std::optional<BlockLoop> loop_of(const Outlined& program) {
  const Outlined* const one[] = {&program};
  return find_block_loop(one);
}

// The first block keeps a value of the embedding and the others one of a block: it stays outside.
TEST(BlockLoopTest, FindsTheBlocksThatRepeat) {
  const ir::Graph graph = there_and_back(5);
  const auto loop = loop_of(outlined(graph));
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(loop->period, 1u);
  EXPECT_GE(loop->count, 4u);
}

TEST(BlockLoopTest, OneBlockIsNoLoop) {
  const ir::Graph graph = there_and_back(1);
  EXPECT_FALSE(loop_of(outlined(graph)).has_value());
}

TEST(BlockLoopTest, TheBackwardPassIsTheForwardPassInReverse) {
  const ir::Graph graph = there_and_back(5);
  const Outlined program = outlined(graph);
  const std::vector<Pass> passes = passes_of(program, *loop_of(program));
  ASSERT_EQ(passes.size(), 2u);
  EXPECT_FALSE(passes[0].is_descending);
  EXPECT_TRUE(passes[1].is_descending);
  EXPECT_TRUE(passes[0].leaves[0][0].is_carried);
  const auto stacks = stacked_inputs(program, passes);
  ASSERT_EQ(stacks.size(), 2u);
  EXPECT_EQ(stacks[0], stacks[1]);
  EXPECT_LT(stacks[0].front(), stacks[0].back());
}

TEST(BlockLoopTest, TheShortestPeriodOfTheMostBlocksIsTaken) {
  std::string text = "graph \"p\" {\n  %0 = input() {dtype=\"f32\", name=\"x\", shape=[4]} : f32[4] @batch #batch\n";
  const std::string pattern = "AEAEAEAERAE";
  for (size_t i = 0; i < pattern.size(); ++i)
    text += fmt::format("  %{} = {}(%{}) : f32[4] @block{:02}.{}\n", i + 1,
                        pattern[i] == 'A'   ? "exp"
                        : pattern[i] == 'E' ? "sqrt"
                                            : "log",
                        i, i, pattern[i]);
  const ir::Graph graph = ir::parse(text + "  output \"y\" = %11\n}\n");
  const auto loop = loop_of(outlined(graph));
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(loop->period, 2u);
  EXPECT_EQ(loop->count, 4u);
  EXPECT_EQ(loop->places.at("block00"), 0u);
  EXPECT_FALSE(loop->places.contains("block08"));
}

// Of the products that leave the backward pass some are state: those are no reports.
TEST(BlockLoopTest, ReportsOfAPassAreNamedInTheOrderOfBlocks) {
  ir::Graph graph = there_and_back(5);
  const Outlined all_state = outlined(graph);
  EXPECT_TRUE(stacked_reports(all_state, passes_of(all_state, *loop_of(all_state))).empty());
  std::string text = ir::print(graph);
  for (int b = 0; b < 5; ++b) {
    const std::string donation = fmt::format(" donates \"w{}\"", b);
    text.erase(text.find(donation), donation.size());
  }
  graph = ir::parse(text);
  const Outlined program = outlined(graph);
  const std::vector<Pass> passes = passes_of(program, *loop_of(program));
  const std::vector<Names> stacks = stacked_reports(program, passes);
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_EQ(stacks[0].size(), passes[1].count) << "made by the backward pass, which descends";
  EXPECT_LT(stacks[0].front(), stacks[0].back());
}

std::string function_text(const ir::Graph& graph, const std::vector<Slot>& inputs, const std::vector<Slot>& outputs) {
  const Outlined program = outlined(graph);
  int64_t channel = 1;
  return write_function({"p", program, passes_of(program, *loop_of(program)), inputs, outputs}, ir::Mesh(), {},
                        channel);
}

TEST(BlockLoopTest, APassIsOneLoopOverStacks) {
  const ir::Graph graph = there_and_back(6);
  const Outlined program = outlined(graph);
  const std::vector<Pass> passes = passes_of(program, *loop_of(program));
  const Names stacked = stacked_inputs(program, passes)[0];
  std::vector<Slot> inputs = {{{"x"}}, {stacked}}, outputs = {{stacked}, {{"y"}}};
  for (int b = 0; b < 6; ++b)
    if (const std::string name = fmt::format("w{}", b); std::ranges::find(stacked, name) == stacked.end()) {
      inputs.push_back({{name}});
      outputs.push_back({{name}});
    }
  const std::string text = function_text(graph, inputs, outputs);
  EXPECT_EQ(count_of(text, "stablehlo.while"), 2u);
  EXPECT_EQ(count_of(text, "stablehlo.concatenate"), 0u);
}

// State that is not stacked is stacked before the loop, and results that are wanted apart are taken out of it.
TEST(BlockLoopTest, SlotsNeedNotBeStacks) {
  const ir::Graph graph = there_and_back(4);
  std::vector<Slot> inputs, outputs;
  for (const std::string& name : input_names(graph)) inputs.push_back({{name}});
  for (const std::string& name : output_names(graph)) outputs.push_back({{name}});
  const std::string text = function_text(graph, inputs, outputs);
  EXPECT_EQ(count_of(text, "stablehlo.while"), 2u);
  EXPECT_GT(count_of(text, "stablehlo.concatenate"), 0u);
}

}  // namespace
}  // namespace megacpp::emit
