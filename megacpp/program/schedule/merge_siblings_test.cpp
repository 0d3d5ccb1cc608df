// SPDX-License-Identifier: Apache-2.0
// Cases on one chip: tests/golden/passes/merge_siblings.
#include "megacpp/program/schedule/merge_siblings.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/tile_builder.h"

namespace megacpp::schedule {
namespace {

ir::Graph in_sibling_clusters(const char* text) { return lower_elementwise(fuse(ir::parse(text))); }

TEST(MergeSiblingsTest, WhatRunsBesideACollectiveStaysBeforeIt) {
  const ir::Graph before = in_sibling_clusters(R"(graph "beside" {
  %0 = input() {dtype="f32", name="x", shape=[4,8]} : f32[4,8] #batch
  %1 = exp(%0) : f32[4,8]
  %2 = all_reduce(%0) {axes="data", kind="sum", parts=2} : f32[4,8] #collective
  %3 = mul(%0, %2) : f32[4,8]
  output "y" = %1
  output "z" = %3
}
)");
  EXPECT_EQ(ir::print(merge_siblings(before)), ir::print(before));
}

// The second reads state that its last reader replaces in place: the first may not read it later than now.
TEST(MergeSiblingsTest, StateIsNotReadBehindWhatReplacesIt) {
  const ir::Graph before = in_sibling_clusters(R"(graph "state" {
  %0 = input() {dtype="f32", name="x", shape=[4,4]} : f32[4,4] #batch
  %1 = input() {dtype="f32", name="s", shape=[4,4]} : f32[4,4] #optimizer
  %2 = mul(%0, %1) : f32[4,4]
  %3 = dot(%0, %0) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[4,4]
  %4 = sub(%0, %3) : f32[4,4]
  output "y" = %2
  output "s" = %4 donates "s"
}
)");
  EXPECT_EQ(ir::print(merge_siblings(before)), ir::print(before));
}

TEST(MergeSiblingsTest, ClustersStayWithinTheirLimits) {
  ir::Graph graph("fan");
  ops::Builder builder(graph);
  const ir::ValueId x = builder.input("x", {ir::DType::f32, {3}}, ir::Role::batch);
  for (int i = 0; i < 100; ++i)
    graph.add_output({.name = "y" + std::to_string(i), .value = builder.scale(x, static_cast<double>(i))});
  const ir::Graph result = merge_siblings(lower_elementwise(fuse(graph)));
  size_t clusters = 0;
  for (const ir::Node& node : result.nodes()) {
    if (node.op != "fused") continue;
    EXPECT_TRUE(take_apart(node).is_within_limits()) << node.results.size();
    ++clusters;
  }
  EXPECT_EQ(clusters, 10u);  // of eleven results and x
}

}  // namespace
}  // namespace megacpp::schedule
