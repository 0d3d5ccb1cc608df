// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/find_activations.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

// %2 is read by nodes 3 and 9, and as %4 by 5; a collective has %3 until node 7.
constexpr const char* kBothPasses = R"(graph "micro_step" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @block00.A #weight
  %2 = exp(%0) : f32[4] @block00.A
  %3 = sin(%2) : f32[4] @block00.A #activation
  %4 = reshape(%2) {shape=[2,2]} : f32[2,2] @block01.A #activation
  %5 = exp(%4) : f32[2,2] @block01.A #activation
  %6 = collective_start(%3) {axes="x", dims=[0], op="all_gather", parts=2} : f32[8] @block01.A #activation
  %7 = collective_done(%6) {axes="x", op="all_gather", parts=2} : f32[8] @block01.A
  %8 = exp(%1) : f32[4] @block00.A #activation
  %9 = mul(%2, %8) : f32[4] @block00.A
  %10 = exp(%7) : f32[8] @block00.A
  %11 = mul(%9, %3) : f32[4] @block00.A
  %12 = exp(%5) : f32[2,2] @block00.A
  output "grad.x" = %11
  output "grad.w" = %10
  output "kept.y" = %12
  output "z" = %5
}
)";

// Nodes have the numbers of their results here.
std::string text_of(const std::vector<Activation>& activations) {
  std::string text;
  for (const Activation& each : activations)
    text += "%" + std::to_string(each.value.index) + ": " + std::to_string(each.made.value()) + " " +
            std::to_string(each.left) + "-" + std::to_string(each.wanted.value()) + "\n";
  return text;
}

// %5 leaves the program, %8 is made of a weight, %9 and behind are not kept. What the collective brings is handed on by
// %7, though the start has the role.
TEST(FindActivationsTest, ValuesOfBlocksAreAwayForTheLongestTimeThatNobodyTouchesThem) {
  const ir::Graph graph = ir::parse(kBothPasses);
  const Touches touches(graph);
  EXPECT_EQ(text_of(find_between_passes(graph, touches, 16)), "%2: 2 5-9\n%3: 3 7-11\n");
  EXPECT_EQ(text_of(find_between_passes(graph, touches, 17)), "");
}

TEST(FindActivationsTest, ShapesTouchWhatTheyShow) {
  const ir::Graph graph = ir::parse(kBothPasses);
  const Touches touches(graph);
  EXPECT_EQ(touches.root(ir::ValueId{4}), ir::ValueId{2});
  EXPECT_TRUE(touches.is_kept(ir::ValueId{2})) << "by its shape";
  std::vector<uint32_t> nodes;
  for (const Touch& touch : touches.of(ir::ValueId{2})) nodes.push_back(touch.node);
  EXPECT_EQ(nodes, (std::vector<uint32_t>{2, 3, 5, 9})) << "the reshape is none";
  EXPECT_EQ(touches.end_of(ir::ValueId{2}), 9U);
}

}  // namespace
}  // namespace megacpp::schedule
