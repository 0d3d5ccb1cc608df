// SPDX-License-Identifier: Apache-2.0
// More cases: tests/golden/passes/recompute_cheap.
#include "megacpp/program/schedule/recompute_cheap.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/fuse.h"

namespace megacpp::schedule {
namespace {

constexpr double kMuchArithmetic = 1000;

void expect_unchanged(const char* text) {
  const ir::Graph before = lower_elementwise(fuse(ir::parse(text)));
  const std::string after = ir::print(recompute_cheap(before, kMuchArithmetic));
  EXPECT_EQ(after, ir::print(before));
}

// A logistic of state that was replaced by then would be of the new value, or cost a copy of the old one.
TEST(RecomputeCheapTest, StateIsNotReadBehindWhatReplacesIt) {
  expect_unchanged(R"(graph "state" {
  %0 = input() {dtype="f32", name="s", shape=[4,4]} : f32[4,4] #optimizer
  %1 = logistic(%0) : f32[4,4]
  %2 = neg(%1) : f32[4,4]
  %3 = dot(%2, %2) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[4,4]
  %4 = mul(%1, %3) : f32[4,4]
  output "y" = %4
  output "s" = %3 donates "s"
}
)");
}

// Registers do not cut.
TEST(RecomputeCheapTest, NumbersCutToIntegersAreReadAsTheyWereStored) {
  expect_unchanged(R"(graph "cut" {
  %0 = input() {dtype="f32", name="x", shape=[4,4]} : f32[4,4] #batch
  %1 = convert(%0) {dtype="i32"} : i32[4,4]
  %2 = dot(%0, %0) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[4,4]
  %3 = convert(%1) {dtype="f32"} : f32[4,4]
  %4 = mul(%3, %2) : f32[4,4]
  output "y" = %4
}
)");
}

// `u` is read anyway, and rounded by then; what it was compared as would have to be made anew, which saves nothing.
std::string compared_in(const std::string& dtype) {
  const std::string whole = dtype + "[4,8]";
  return "graph \"mask\" {\n  %0 = input() {dtype=\"" + dtype + "\", name=\"x\", shape=[4,8]} : " + whole +
         " #batch\n  %1 = input() {dtype=\"" + dtype + "\", name=\"w\", shape=[8,8]} : " + dtype +
         "[8,8] #weight\n  %2 = exp(%0) : " + whole + "\n  %3 = constant() {dtype=\"" + dtype +
         "\", shape=[4,8], value=1.0} : " + whole +
         "\n  %4 = compare(%2, %3) {direction=\"lt\"} : pred[4,8]\n"
         "  %5 = dot(%2, %1) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : " +
         whole + "\n  %6 = select(%4, %2, %5) : " + whole + "\n  output \"y\" = %6\n  output \"u\" = %2\n}\n";
}

TEST(RecomputeCheapTest, WhatWasComparedIsNotComparedAgainAsItWasRounded) {
  expect_unchanged(compared_in("bf16").c_str());
  const ir::Graph before = lower_elementwise(fuse(ir::parse(compared_in("f32"))));
  EXPECT_NE(ir::print(recompute_cheap(before, kMuchArithmetic)), ir::print(before)) << "f32 is stored as it is";
}

// A row that is read by every column would be made once for each.
TEST(RecomputeCheapTest, WhatIsBroadcastIsMadeOnce) {
  expect_unchanged(R"(graph "row" {
  %0 = input() {dtype="f32", name="x", shape=[4,4]} : f32[4,4] #batch
  %1 = input() {dtype="f32", name="row", shape=[4]} : f32[4] #weight
  %2 = exp(%1) : f32[4]
  %3 = broadcast(%2) {dims=[1], shape=[4,4]} : f32[4,4]
  %4 = mul(%0, %3) : f32[4,4]
  output "y" = %4
}
)");
}

// The reshape is the same bytes: the reader before its own last one leaves nothing to be saved.
TEST(RecomputeCheapTest, ViewsOfAValueKeepIt) {
  expect_unchanged(R"(graph "view" {
  %0 = input() {dtype="f32", name="x", shape=[4,4]} : f32[4,4] #batch
  %1 = exp(%0) : f32[4,4]
  %2 = reshape(%1) {shape=[16]} : f32[16]
  %3 = dot(%0, %0) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[4,4]
  %4 = mul(%1, %3) : f32[4,4]
  %5 = neg(%2) : f32[16]
  output "y" = %4
  output "z" = %5
}
)");
}

TEST(RecomputeCheapTest, ClustersStayWithinTheirLimits) {
  ir::Graph graph("long");
  ops::Builder builder(graph);
  const ir::ValueId x = builder.input("x", {ir::DType::f32, {3, 3}}, ir::Role::batch);
  ir::ValueId chain = x;
  for (int i = 0; i < 30; ++i) chain = builder.tanh(chain);
  const ir::ValueId product = builder.dot(x, x, {.lhs_contract = {1}, .rhs_contract = {0}});
  ir::ValueId later = builder.mul(chain, product);
  for (int i = 0; i < 20; ++i) later = builder.exp(later);
  graph.add_output({.name = "y", .value = later});
  const ir::Graph before = lower_elementwise(fuse(graph));
  EXPECT_EQ(ir::print(recompute_cheap(before, kMuchArithmetic)), ir::print(before));  // of 51 ops it would be
}

}  // namespace
}  // namespace megacpp::schedule
