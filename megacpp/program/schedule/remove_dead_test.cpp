// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/remove_dead.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

TEST(RemoveDeadTest, KeepsInputsAndWhatOutputsNeed) {
  const ir::Graph graph = ir::parse(R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="unused", shape=[2]} : f32[2] #weight
  %2 = exp(%0) : f32[4]
  %3 = neg(%2) : f32[4]
  %4 = tanh(%2) : f32[4]
  %5, %6 = top_k(%4) {k=2} : f32[2], i32[2]
  output "y" = %6
}
)");
  EXPECT_EQ(ir::print(remove_dead(graph)), R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="unused", shape=[2]} : f32[2] #weight
  %2 = exp(%0) : f32[4]
  %3 = tanh(%2) : f32[4]
  %4, %5 = top_k(%3) {k=2} : f32[2], i32[2]
  output "y" = %5
}
)");
}

TEST(RemoveDeadTest, KeepsNodesWithoutResultsAndWhatTheyNeed) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4]
  send(%1) {axes="stage", peer=1, tag=0} #collective
  %2 = neg(%0) : f32[4]
  output "y" = %2
}
)";
  EXPECT_EQ(ir::print(remove_dead(ir::parse(text))), text);
}

}  // namespace
}  // namespace megacpp::schedule
