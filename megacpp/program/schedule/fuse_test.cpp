// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/fuse.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/tile_program.h"
#include "megacpp/program/ops/verify.h"

namespace megacpp::schedule {
namespace {

std::string fused(const char* text) { return ir::print(lower_elementwise(fuse(ir::parse(text)))); }

TEST(FuseTest, ReductionsEndAClusterAndAreReadBackBroadcast) {
  EXPECT_EQ(fused(R"ir(graph "softmax" {
  %0 = input() {dtype="f32", name="x", shape=[2,3]} : f32[2,3] #batch
  %1 = reduce(%0) {dims=[1], kind="max"} : f32[2]
  %2 = broadcast(%1) {dims=[0], shape=[2,3]} : f32[2,3]
  %3 = sub(%0, %2) : f32[2,3] @block00.A
  %4 = exp(%3) : f32[2,3] @block00.A
  %5 = reduce(%4) {dims=[1], kind="sum"} : f32[2] @block00.A
  %6 = broadcast(%5) {dims=[0], shape=[2,3]} : f32[2,3] @block00.A
  %7 = div(%4, %6) : f32[2,3] @block00.A #activation
  output "y" = %7
}
)ir"),
            R"ir(graph "softmax" {
  %0 = input() {dtype="f32", name="x", shape=[2,3]} : f32[2,3] #batch
  %1 = fused(%0) {dtypes="f32", program="in(0,1) max(%0;1)", shape=[2,3]} : f32[2]
  %2, %3 = fused(%0, %1) {dtypes="f32 f32", program="in(0,1) in(0) sub(%0,%1) exp(%2) out(%3) sum(%3;1)", shape=[2,3]} : f32[2,3], f32[2] @block00.A
  %4 = fused(%2, %3) {dtypes="f32", program="in(0,1) in(0) div(%0,%1) out(%2)", shape=[2,3]} : f32[2,3] @block00.A #activation
  output "y" = %4
}
)ir");
}

TEST(FuseTest, ReaderInBetweenSplitsAClusterAndWholeConstantsAreMaterialised) {
  EXPECT_EQ(fused(R"ir(graph "silu" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %2 = constant() {dtype="f32", shape=[], value=0.5} : f32[]
  %3 = broadcast(%2) {dims=[], shape=[4]} : f32[4]
  %4 = mul(%0, %3) : f32[4]
  %5 = logistic(%4) : f32[4]
  %6 = dot(%5, %1) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[2]
  %7 = mul(%4, %5) : f32[4]
  %8 = dot(%3, %1) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[2]
  output "y" = %6
  output "z" = %7
  output "c" = %8
}
)ir"),
            R"ir(graph "silu" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %2, %3 = fused(%0) {dtypes="f32 f32", program="in(0) const(0.5) mul(%0,%1) logistic(%2) out(%2) out(%3)", shape=[4]} : f32[4], f32[4]
  %4 = dot(%3, %1) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[2]
  %5 = fused(%2, %3) {dtypes="f32", program="in(0) in(0) mul(%0,%1) out(%2)", shape=[4]} : f32[4]
  %6 = fused() {dtypes="f32", program="const(0.5) out(%0)", shape=[4]} : f32[4]
  %7 = dot(%6, %1) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[2]
  output "y" = %4
  output "z" = %5
  output "c" = %7
}
)ir");
}

TEST(FuseTest, NumberCutToAnIntegerIsNotReadOnInsideTheCluster) {
  EXPECT_EQ(fused(R"ir(graph "cut" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4]
  %2 = convert(%1) {dtype="i32"} : i32[4]
  %3 = convert(%2) {dtype="f32"} : f32[4]
  %4 = sub(%1, %3) : f32[4]
  output "fraction" = %4
}
)ir"),
            R"ir(graph "cut" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1, %2 = fused(%0) {dtypes="f32 i32", program="in(0) exp(%0) convert(%1) out(%1) out(%2)", shape=[4]} : f32[4], i32[4]
  %3 = fused(%2, %1) {dtypes="f32", program="in(0) convert(%0) in(0) sub(%2,%1) out(%3)", shape=[4]} : f32[4]
  output "fraction" = %3
}
)ir");
}

TEST(FuseTest, NoClusterReadsMoreTensorsThanATileProgramMay) {
  ir::Graph graph("sum");
  ops::Builder builder(graph);
  ir::ValueId sum = builder.constant(0.0, {3});
  for (int i = 0; i < 100; ++i)
    sum = builder.add(sum, builder.input("x" + std::to_string(i), {ir::DType::f32, {3}}, ir::Role::batch));
  graph.add_output({.name = "sum", .value = sum});
  const ir::Graph result = lower_elementwise(fuse(graph));
  ops::verify(result, ops::Form::fused);
  size_t clusters = 0;
  for (const ir::Node& node : result.nodes()) {
    EXPECT_LE(node.operands.size(), ops::kMaxTileInputs);
    clusters += node.op == "fused" ? 1 : 0;
  }
  EXPECT_LE(clusters, 6U);
}

}  // namespace
}  // namespace megacpp::schedule
