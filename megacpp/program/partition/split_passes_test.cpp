// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/split_passes.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "tests/support/tensors.h"

namespace megacpp::partition {
namespace {

// y = tanh(x w) with w stored wider than computed with: the converted weight is recomputed, the view of the result is
// kept as what it shows, and the weight's gradient is nothing the stage before waits for.
constexpr const char* kStage = R"(graph "s" {
  %0 = input() {dtype="f32", name="carry.0", shape=[2,3]} : f32[2,3] #activation
  %1 = input() {dtype="f32", name="w", shape=[3,4]} : f32[3,4] #weight
  %2 = convert(%1) {dtype="bf16"} : bf16[3,4]
  %3 = convert(%0) {dtype="bf16"} : bf16[2,3]
  %4 = dot(%3, %2) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : bf16[2,4]
  %5 = tanh(%4) : bf16[2,4]
  %6 = reshape(%5) {shape=[8]} : bf16[8]
  %7 = input() {dtype="bf16", name="cotangent.carry.1", shape=[8]} : bf16[8] #activation
  %8 = mul(%6, %6) : bf16[8]
  %9 = mul(%8, %7) : bf16[8]
  %10 = reshape(%9) {shape=[2,4]} : bf16[2,4]
  %11 = dot(%10, %2) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : bf16[2,3]
  %12 = convert(%11) {dtype="f32"} : f32[2,3]
  %13 = dot(%3, %10) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : bf16[3,4]
  %14 = convert(%13) {dtype="f32"} : f32[3,4]
  %15 = input() {dtype="f32", name="grad.w", shape=[3,4]} : f32[3,4] #gradient
  %16 = add(%15, %14) : f32[3,4]
  output "carry.1" = %6
  output "cotangent.carry.0" = %12
  output "grad.w" = %16 donates "grad.w"
}
)";
constexpr size_t kForwardNodes = 7;

std::string printed_passes(const Divided& passes) {
  std::string text;
  for (const Part& part : passes.parts) text += ir::print(part.graph);
  return text;
}

TEST(SplitPassesTest, BackwardInTwoPartsHasTheWeightsLast) {
  EXPECT_EQ(printed_passes(split_passes(ir::parse(kStage), kForwardNodes, Backward::in_two_parts)),
            R"(graph "s.forward" {
  %0 = input() {dtype="f32", name="carry.0", shape=[2,3]} : f32[2,3] #activation
  %1 = input() {dtype="f32", name="w", shape=[3,4]} : f32[3,4] #weight
  %2 = convert(%1) {dtype="bf16"} : bf16[3,4]
  %3 = convert(%0) {dtype="bf16"} : bf16[2,3]
  %4 = dot(%3, %2) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : bf16[2,4]
  %5 = tanh(%4) : bf16[2,4]
  %6 = reshape(%5) {shape=[8]} : bf16[8]
  output "carry.1" = %6
  output "kept.0" = %3
  output "kept.1" = %5
}
graph "s.backward_input" {
  %0 = input() {dtype="f32", name="w", shape=[3,4]} : f32[3,4] #weight
  %1 = convert(%0) {dtype="bf16"} : bf16[3,4]
  %2 = input() {dtype="bf16", name="kept.1", shape=[2,4]} : bf16[2,4] #activation
  %3 = reshape(%2) {shape=[8]} : bf16[8]
  %4 = input() {dtype="bf16", name="cotangent.carry.1", shape=[8]} : bf16[8] #activation
  %5 = mul(%3, %3) : bf16[8]
  %6 = mul(%5, %4) : bf16[8]
  %7 = reshape(%6) {shape=[2,4]} : bf16[2,4]
  %8 = dot(%7, %1) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : bf16[2,3]
  %9 = convert(%8) {dtype="f32"} : f32[2,3]
  output "cotangent.carry.0" = %9
  output "kept.2" = %6
}
graph "s.backward_weight" {
  %0 = input() {dtype="bf16", name="kept.0", shape=[2,3]} : bf16[2,3] #activation
  %1 = input() {dtype="bf16", name="kept.2", shape=[8]} : bf16[8] #activation
  %2 = reshape(%1) {shape=[2,4]} : bf16[2,4]
  %3 = dot(%0, %2) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : bf16[3,4]
  %4 = convert(%3) {dtype="f32"} : f32[3,4]
  %5 = input() {dtype="f32", name="grad.w", shape=[3,4]} : f32[3,4] #gradient
  %6 = add(%5, %4) : f32[3,4]
  output "grad.w" = %6 donates "grad.w"
}
)");
}

TEST(SplitPassesTest, WholeBackwardIsOneProgram) {
  const Divided passes = split_passes(ir::parse(kStage), kForwardNodes, Backward::whole);
  ASSERT_EQ(passes.parts.size(), 2U);
  EXPECT_EQ(passes.parts[1].graph.name(), "s.backward");
  EXPECT_TRUE(passes.parts[1].graph.find_output("cotangent.carry.0"));
  EXPECT_TRUE(passes.parts[1].graph.find_output("grad.w"));
  EXPECT_EQ(passes.crossings.size(), 2U);
}

// w is gathered by the forward pass and read as gathered in both; v is gathered once more where the backward pass reads
// it.
TEST(SplitPassesTest, AGatheredWeightThatBothPassesReadIsKept) {
  const ir::Graph graph = ir::parse(R"(graph "s" {
  %0 = input() {dtype="f32", name="carry.0", shape=[2,4]} : f32[2,4] #activation
  %1 = input() {dtype="f32", name="w", shape=[2,4]} : f32[2,4] #weight
  %2 = input() {dtype="f32", name="v", shape=[2,4]} : f32[2,4] #weight
  %3 = all_gather(%1) {axes="data", dims=[0], parts=2} : f32[4,4] #collective
  %4 = neg(%3) : f32[4,4]
  %5 = all_gather(%2) {axes="data", dims=[0], parts=2} : f32[4,4] #collective
  %6 = dot(%0, %4) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[2,4]
  %7 = dot(%6, %5) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[2,4]
  %8 = input() {dtype="f32", name="cotangent.carry.1", shape=[2,4]} : f32[2,4] #activation
  %9 = all_gather(%2) {axes="data", dims=[0], parts=2} : f32[4,4] #collective
  %10 = dot(%8, %9) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : f32[2,4]
  %11 = dot(%10, %4) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : f32[2,4]
  output "carry.1" = %7
  output "cotangent.carry.0" = %11
}
)");
  EXPECT_EQ(ir::print(split_passes(graph, 8, Backward::whole).parts[1].graph), R"(graph "s.backward" {
  %0 = input() {dtype="f32", name="v", shape=[2,4]} : f32[2,4] #weight
  %1 = input() {dtype="f32", name="kept.weight.0", shape=[4,4]} : f32[4,4] #weight
  %2 = neg(%1) : f32[4,4]
  %3 = input() {dtype="f32", name="cotangent.carry.1", shape=[2,4]} : f32[2,4] #activation
  %4 = all_gather(%0) {axes="data", dims=[0], parts=2} : f32[4,4] #collective
  %5 = dot(%3, %4) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : f32[2,4]
  %6 = dot(%5, %2) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : f32[2,4]
  output "cotangent.carry.0" = %6
}
)");
}

TEST(SplitPassesTest, ProgramsInTurnComputeWhatTheStageComputes) {
  const ir::Graph graph = ir::parse(kStage);
  for (const Backward backward : {Backward::whole, Backward::in_two_parts}) {
    std::map<std::string, ops::Tensor> values = testing_support::random_inputs(graph, "split");
    const auto wanted = ops::evaluate(graph, values);
    for (const Part& part : split_passes(graph, kForwardNodes, backward).parts)
      for (auto& [name, tensor] : ops::evaluate(part.graph, values)) values[name] = std::move(tensor);
    for (const auto& [name, tensor] : wanted)
      EXPECT_TRUE(testing_support::is_close(values.at(name), tensor, 0)) << name;
  }
}

}  // namespace
}  // namespace megacpp::partition
