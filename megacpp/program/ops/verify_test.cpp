// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/verify.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Role;
using ir::TensorType;

// What verify() says of the graph, "" when it holds.
std::string complaint(const ir::Graph& graph, Form form = Form::built) {
  try {
    verify(graph, form);
    return "";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E9001);
    return error.problem().got;
  }
}

std::string complaint(std::string_view nodes, Form form = Form::built) {
  return complaint(ir::parse("graph \"g\" {\n" + std::string(nodes) + "\n}\n"), form);
}

constexpr std::string_view kInputs =
    "%0 = input() {dtype=\"f32\", name=\"x\", shape=[2,3]} : f32[2,3] #batch\n"
    "%1 = input() {dtype=\"f32\", name=\"w\", shape=[3]} : f32[3] #weight\n";

std::string after_inputs(std::string_view nodes) { return std::string(kInputs) + std::string(nodes); }

TEST(VerifyTest, BuiltGraphHolds) {
  ir::Graph graph("g");
  Builder b(graph);
  const ValueId x = b.input("x", {DType::f32, {2, 3}}, Role::batch);
  const ValueId w = b.input("w", {DType::f32, {3}}, Role::weight);
  const ValueId y = b.mul(x, b.broadcast(w, {2, 3}, {1}));
  graph.add_output({.name = "y", .value = y, .donated = "x"});
  graph.add_output({.name = "loss", .value = b.sum_all(y)});
  EXPECT_EQ(complaint(graph), "");
}

TEST(VerifyTest, FusedNodesStandOnlyAfterFusion) {
  const std::string fused = after_inputs(
      "%2 = fused(%0, %1) {dtypes=\"f32\", program=\"in(0,1) in(1) mul(%0,%1) out(%2)\", shape=[2,3]} : f32[2,3] @a.B");
  EXPECT_EQ(complaint(fused, Form::fused), "");
  EXPECT_EQ(complaint(fused), "node 2 (fused @a.B) may only stand after fusion");
  EXPECT_EQ(complaint(after_inputs("%2 = exp(%0) : f32[2,3]"), Form::fused),
            "node 2 (exp) is left outside fused nodes");
}

TEST(VerifyTest, UnknownOpIsNamedWithItsScope) {
  EXPECT_EQ(complaint("%0 = expp() : f32[] @block07.M.ssd"), "node 0 (expp @block07.M.ssd) is no op of the table");
}

TEST(VerifyTest, StoredTypesMustEqualInference) {
  EXPECT_EQ(complaint(after_inputs("%2 = exp(%0) : f32[3,2]")),
            "node 2 (exp) result 0 is f32[3,2]; inference gives f32[2,3]");
  EXPECT_EQ(complaint(after_inputs("%2, %3 = exp(%0) : f32[2,3], f32[]")),
            "node 2 (exp) has 2 results; inference gives 1");
  EXPECT_EQ(complaint("%0 = input() {dtype=\"f32\", name=\"x\", shape=[2]} : f32[3]"),
            "node 0 (input) result 0 is f32[3]; inference gives f32[2]");
}

TEST(VerifyTest, RefusalOfInferenceNamesTheNode) {
  const std::string text = complaint(after_inputs("%2 = add(%0, %1) : f32[2,3]"));
  EXPECT_TRUE(text.starts_with("node 2 (add) is refused by inference: ")) << text;
  EXPECT_TRUE(complaint("%0 = iota() : f32[]").starts_with("node 0 (iota) is refused")) << "attributes are missing";
}

TEST(VerifyTest, OperandsMustBeDefinedBeforeUse) {
  ir::Graph graph = ir::parse("graph \"g\" {" + after_inputs("%2 = exp(%0) : f32[2,3] %3 = exp(%2) : f32[2,3]") + "}");
  graph.node({2}).operands = {{3}};
  EXPECT_EQ(complaint(graph), "node 2 (exp) reads %3 before it is defined");
  graph.node({2}).operands = {{2}};
  EXPECT_EQ(complaint(graph), "node 2 (exp) reads %2 before it is defined");
  graph.node({2}).operands = {{9}};
  EXPECT_EQ(complaint(graph), "node 2 (exp) reads %9 before it is defined");
  graph.node({2}).operands = {{0}};
  graph.node({2}).results = {{3}};
  EXPECT_EQ(complaint(graph), "node 2 (exp) lists %3, which is not its result 0");
}

TEST(VerifyTest, InputsAndOutputsAreNamedOnce) {
  const std::string twice = after_inputs("%2 = input() {dtype=\"i32\", name=\"x\", shape=[]} : i32[] @again");
  EXPECT_EQ(complaint(twice), "node 2 (input @again) repeats the input name 'x'");
  EXPECT_EQ(complaint("%0 = input() {dtype=\"i32\", shape=[]} : i32[]"), "node 0 (input) has no name");
  EXPECT_EQ(complaint(after_inputs("output \"y\" = %0\noutput \"y\" = %1")), "output 'y' stands twice");
}

TEST(VerifyTest, DonationNeedsAnInputOfTheSameTypeAndHappensOnce) {
  const std::string nodes = after_inputs("%2 = exp(%0) : f32[2,3] @head\n");
  EXPECT_EQ(complaint(nodes + "output \"y\" = %2 donates \"x\""), "");
  EXPECT_EQ(complaint(nodes + "output \"y\" = %2 donates \"z\""),
            "node 2 (exp @head) gives output 'y', which takes over 'z', but no input has that name");
  EXPECT_EQ(complaint(nodes + "output \"y\" = %2 donates \"w\""),
            "node 2 (exp @head) gives output 'y' of type f32[2,3], which takes over 'w' of type f32[3]");
  EXPECT_EQ(complaint(nodes + "output \"y\" = %2 donates \"x\"\noutput \"z\" = %0 donates \"x\""),
            "node 0 (input) gives output 'z', which takes over 'x' a second time");
}

}  // namespace
}  // namespace megacpp::ops
