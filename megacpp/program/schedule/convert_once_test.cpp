// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/convert_once.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"

namespace megacpp::schedule {
namespace {

using ops::Tensor;

std::string text(const std::string& nodes) { return "graph \"g\" {\n" + nodes + "}\n"; }

ConvertOnce converted(const std::string& nodes, const std::set<std::string>& weights = {"w"}) {
  ConvertOnce result = read_copies(ir::parse(text(nodes)), weights);
  ops::verify(result.graph, ops::Form::built);
  EXPECT_EQ(has_copies_to_read(ir::parse(text(nodes)), weights), !result.copies.empty()) << "said before";
  return result;
}

void expect_left_alone(const std::string& nodes, const std::set<std::string>& weights = {"w"}) {
  const ConvertOnce result = converted(nodes, weights);
  EXPECT_EQ(ir::print(result.graph), text(nodes));
  EXPECT_TRUE(result.copies.empty());
}

// The forward pass converts a weight, and so does the backward pass that makes it again.
constexpr const char* kTwoProducts = R"(  %0 = input() {dtype="bf16", name="x", shape=[3,4]} : bf16[3,4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] @block00.E #weight
  %2 = convert(%1) {dtype="bf16"} : bf16[4,2] @block00.E
  %3 = dot(%0, %2) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : bf16[3,2] @block00.E
  %4 = convert(%1) {dtype="bf16"} : bf16[4,2] @block00.E
  %5 = dot(%3, %4) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : bf16[3,4] @block00.E
  output "y" = %5
)";

TEST(ConvertOnceTest, ProductsReadTheCopyInPlaceOfEveryConversion) {
  const ConvertOnce result = converted(kTwoProducts);
  EXPECT_EQ(ir::print(result.graph), text(R"(  %0 = input() {dtype="bf16", name="x", shape=[3,4]} : bf16[3,4] #batch
  %1 = input() {dtype="bf16", name="bf16.w", shape=[4,2]} : bf16[4,2] @block00.E #weight_copy
  %2 = dot(%0, %1) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : bf16[3,2] @block00.E
  %3 = dot(%2, %1) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : bf16[3,4] @block00.E
  output "y" = %3
)"));
  ASSERT_EQ(result.copies.size(), 1u);
  EXPECT_EQ(result.copies[0].weight, "w");
  EXPECT_EQ(result.copies[0].scope, "block00.E");
}

// Numbers that bf16 does not have: they are rounded in one program instead of in the other.
TEST(ConvertOnceTest, BothProgramsTogetherComputeTheSameBits) {
  const ir::Graph before = ir::parse(text(kTwoProducts));
  const ConvertOnce after = converted(kTwoProducts);
  std::map<std::string, Tensor> inputs = {{"x", Tensor::zeros({ir::DType::bf16, {3, 4}})},
                                          {"w", Tensor::zeros({ir::DType::f32, {4, 2}})}};
  for (int64_t i = 0; i < 12; ++i) inputs.at("x")[i] = static_cast<double>(i - 5) / 4;
  for (int64_t i = 0; i < 8; ++i) inputs.at("w")[i] = 1.0 + static_cast<double>(i) / 1000;
  const Tensor wanted = ops::evaluate(before, inputs).at("y");
  inputs["bf16.w"] = Tensor::zeros({ir::DType::bf16, {4, 2}});
  inputs["bf16.w"] = ops::evaluate(make_copies(after.copies), inputs).at("bf16.w");
  EXPECT_EQ(inputs["bf16.w"][1], 1.0) << "1.001 in bf16";
  const Tensor got = ops::evaluate(after.graph, inputs).at("y");
  for (int64_t i = 0; i < wanted.elements(); ++i) EXPECT_EQ(got[i], wanted[i]) << i;
}

TEST(ConvertOnceTest, TheOtherProgramReplacesTheCopies) {
  const ir::Graph graph = make_copies({{"w", "block00.E", {4, 2}}, {"v", "head", {3}}});
  ops::verify(graph, ops::Form::built);
  EXPECT_EQ(ir::print(graph), R"(graph "convert_weights" {
  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] @block00.E #weight
  %1 = input() {dtype="bf16", name="bf16.w", shape=[4,2]} : bf16[4,2] @block00.E #weight_copy
  %2 = convert(%0) {dtype="bf16"} : bf16[4,2] @block00.E
  %3 = input() {dtype="f32", name="v", shape=[3]} : f32[3] @head #weight
  %4 = input() {dtype="bf16", name="bf16.v", shape=[3]} : bf16[3] @head #weight_copy
  %5 = convert(%3) {dtype="bf16"} : bf16[3] @head
  output "bf16.w" = %2 donates "bf16.w"
  output "bf16.v" = %5 donates "bf16.v"
}
)");
}

// Rows of a tied embedding are taken from the table as it is stored.
TEST(ConvertOnceTest, AWeightThatIsReadInF32TooStaysAnInput) {
  const ConvertOnce result = converted(R"(  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %1 = neg(%0) : f32[4,2]
  %2 = convert(%0) {dtype="bf16"} : bf16[4,2]
  %3 = reshape(%2) {shape=[8]} : bf16[8]
  output "y" = %1
  output "z" = %3
)");
  EXPECT_EQ(ir::print(result.graph), text(R"(  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %1 = input() {dtype="bf16", name="bf16.w", shape=[4,2]} : bf16[4,2] #weight_copy
  %2 = neg(%0) : f32[4,2]
  %3 = reshape(%1) {shape=[8]} : bf16[8]
  output "y" = %2
  output "z" = %3
)"));
}

// Biases and scales: one number for many elements is read from memory.
TEST(ConvertOnceTest, WhatIsBroadcastIsReadFromTheCopy) {
  const ConvertOnce result = converted(R"(  %0 = input() {dtype="f32", name="w", shape=[2]} : f32[2] #weight
  %1 = convert(%0) {dtype="bf16"} : bf16[2]
  %2 = broadcast(%1) {dims=[1], shape=[4,2]} : bf16[4,2]
  %3 = neg(%2) : bf16[4,2]
  output "y" = %3
)");
  EXPECT_EQ(result.copies.size(), 1u);
  EXPECT_EQ(result.graph.find_input("w"), std::nullopt);
}

TEST(ConvertOnceTest, WhatClustersReadUnroundedStaysInThem) {
  constexpr const char* kConvert = R"(  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %1 = convert(%0) {dtype="bf16"} : bf16[4,2]
)";
  expect_left_alone(std::string(kConvert) + "  %2 = neg(%1) : bf16[4,2]\n  output \"y\" = %2\n");
  expect_left_alone(std::string(kConvert) + "  %2 = broadcast(%1) {dims=[0,1], shape=[4,2]} : bf16[4,2]\n" +
                    "  %3 = neg(%2) : bf16[4,2]\n  output \"y\" = %3\n");
  expect_left_alone(std::string(kConvert) + "  %2 = reduce(%1) {dims=[1], kind=\"sum\"} : bf16[4]\n" +
                    "  output \"y\" = %2\n");
  expect_left_alone(std::string(kConvert) + "  output \"y\" = %1\n");
}

// Sums over other than trailing dimensions are in no cluster.
TEST(ConvertOnceTest, KernelsThatReduceReadTheCopy) {
  EXPECT_EQ(converted(R"(  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %1 = convert(%0) {dtype="bf16"} : bf16[4,2]
  %2 = reduce(%1) {dims=[0], kind="sum"} : bf16[2]
  output "y" = %2
)")
                .copies.size(),
            1u);
}

TEST(ConvertOnceTest, ShardsThatAreGatheredAreConvertedWhereTheyAre) {
  constexpr const char* kShard = R"(  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %1 = convert(%0) {dtype="bf16"} : bf16[4,2]
)";
  expect_left_alone(std::string(kShard) +
                    "  %2 = all_gather(%1) {axes=\"data\", dims=[0], parts=2} : bf16[8,2] #collective\n" +
                    "  output \"y\" = %2\n");
  expect_left_alone(std::string(kShard) + "  %2 = reshape(%1) {shape=[8]} : bf16[8]\n" +
                    "  %3 = all_gather(%2) {axes=\"data\", dims=[0], parts=2} : bf16[16] #collective\n" +
                    "  output \"y\" = %3\n");
}

TEST(ConvertOnceTest, OnlyWeightsOfTheRunAreConverted) {
  constexpr const char* kKept = R"(  %0 = input() {dtype="f32", name="kept.weight.0", shape=[4,2]} : f32[4,2] #weight
  %1 = convert(%0) {dtype="bf16"} : bf16[4,2]
  %2 = reshape(%1) {shape=[8]} : bf16[8]
  output "y" = %2
)";
  expect_left_alone(kKept);
  EXPECT_EQ(converted(kKept, {"kept.weight.0"}).copies.size(), 1u) << "it is the name alone";
}

TEST(ConvertOnceTest, OtherTypesAreLeftAlone) {
  expect_left_alone(R"(  %0 = input() {dtype="bf16", name="w", shape=[4,2]} : bf16[4,2] #weight
  %1 = convert(%0) {dtype="f32"} : f32[4,2]
  %2 = reshape(%1) {shape=[8]} : f32[8]
  output "y" = %2
)");
}

}  // namespace
}  // namespace megacpp::schedule
