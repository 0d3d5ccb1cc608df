// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/overlap_collectives.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/schedule/bucket_collectives.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/order.h"
#include "tests/support/random_collectives.h"
#include "tests/support/two_chips.h"

namespace megacpp::schedule {
namespace {

// The order in short: "start a", "done a", "mul a": each node under the last part of its scope.
std::vector<std::string> order_of(const ir::Graph& graph) {
  std::vector<std::string> lines;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::kInputOp) continue;
    const std::string op = node.op == ops::kStartOp ? "start" : node.op == ops::kDoneOp ? "done" : node.op;
    lines.push_back(op + " " + node.scope);
  }
  return lines;
}

std::vector<std::string> overlapped(const std::string& text, int64_t prefetch) {
  const ir::Graph before = ir::parse(text);
  ops::verify(before, ops::Form::built);
  const ir::Graph after = overlap_collectives(before, {.prefetch = prefetch});
  ops::verify(after, ops::Form::built);
  testing_support::expect_same_on_two_chips(before, after);
  return order_of(after);
}

const std::string kGathers = R"(graph "forward" {
  %0 = input() {dtype="f32", name="a", shape=[2]} : f32[2] @a #weight
  %1 = input() {dtype="f32", name="b", shape=[2]} : f32[2] @b #weight
  %2 = input() {dtype="f32", name="c", shape=[2]} : f32[2] @c #weight
  %3 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %4 = all_gather(%0) {axes="x", dims=[0], parts=2} : f32[4] @a #collective
  %5 = mul(%3, %4) : f32[4] @a
  %6 = all_gather(%1) {axes="x", dims=[0], parts=2} : f32[4] @b #collective
  %7 = mul(%5, %6) : f32[4] @b
  %8 = all_gather(%2) {axes="x", dims=[0], parts=2} : f32[4] @c #collective
  %9 = mul(%7, %8) : f32[4] @c
  output "y" = %9
}
)";

using Order = std::vector<std::string>;

TEST(OverlapCollectivesTest, WeightsOfTheNextBlockTravelWhileOneComputes) {
  EXPECT_EQ(overlapped(kGathers, 1),
            (Order{"all_gather a", "start b", "mul a", "done b", "start c", "mul b", "done c", "mul c"}));
}

TEST(OverlapCollectivesTest, PrefetchSaysHowManyBlocksAhead) {
  EXPECT_EQ(overlapped(kGathers, 0),
            (Order{"all_gather a", "mul a", "all_gather b", "mul b", "all_gather c", "mul c"}));
  EXPECT_EQ(overlapped(kGathers, 2),
            (Order{"all_gather a", "start b", "start c", "mul a", "done b", "mul b", "done c", "mul c"}));
}

// Narrowed on its own chip first, a weight travels as early: what narrows it goes with it.
TEST(OverlapCollectivesTest, WeightsThatAreNarrowedFirstTravelAsEarly) {
  EXPECT_EQ(overlapped(R"(graph "forward" {
  %0 = input() {dtype="f32", name="a", shape=[2]} : f32[2] @a #weight
  %1 = input() {dtype="f32", name="b", shape=[2]} : f32[2] @b #weight
  %2 = input() {dtype="bf16", name="x", shape=[4]} : bf16[4] #batch
  %3 = convert(%0) {dtype="bf16"} : bf16[2] @a
  %4 = all_gather(%3) {axes="x", dims=[0], parts=2} : bf16[4] @a #collective
  %5 = mul(%2, %4) : bf16[4] @a
  %6 = convert(%1) {dtype="bf16"} : bf16[2] @b
  %7 = all_gather(%6) {axes="x", dims=[0], parts=2} : bf16[4] @b #collective
  %8 = mul(%5, %7) : bf16[4] @b
  output "y" = %8
}
)",
                       1),
            (Order{"convert a", "all_gather a", "convert b", "start b", "mul a", "done b", "mul b"}));
}

// Gradients of three blocks, last block first, each added to its sum.
const std::string kReductions = R"(graph "backward" {
  %0 = input() {dtype="f32", name="a", shape=[2]} : f32[2] @a #gradient
  %1 = input() {dtype="f32", name="b", shape=[2]} : f32[2] @b #gradient
  %2 = input() {dtype="f32", name="c", shape=[2]} : f32[2] @c #gradient
  %3 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %4 = exp(%3) : f32[4] @c
  %5 = reduce_scatter(%4) {axes="x", dims=[0], parts=2} : f32[2] @c #collective
  %6 = add(%2, %5) : f32[2] @c
  %7 = tanh(%4) : f32[4] @b
  %8 = reduce_scatter(%7) {axes="x", dims=[0], parts=2} : f32[2] @b #collective
  %9 = add(%1, %8) : f32[2] @b
  %10 = sin(%7) : f32[4] @a
  %11 = reduce_scatter(%10) {axes="x", dims=[0], parts=2} : f32[2] @a #collective
  %12 = add(%0, %11) : f32[2] @a
  %13 = cos(%10) : f32[4] @embed
  output "a" = %12 donates "a"
  output "b" = %9 donates "b"
  output "c" = %6 donates "c"
  output "y" = %13
}
)";

TEST(OverlapCollectivesTest, GradientsTravelWhileTheNextBlockComputes) {
  EXPECT_EQ(overlapped(kReductions, 1), (Order{"exp c", "start c", "tanh b", "done c", "add c", "start b", "sin a",
                                               "done b", "add b", "start a", "cos embed", "done a", "add a"}));
  EXPECT_EQ(overlapped(kReductions, 0), (Order{"exp c", "reduce_scatter c", "add c", "tanh b", "reduce_scatter b",
                                               "add b", "sin a", "reduce_scatter a", "add a", "cos embed"}));
}

TEST(OverlapCollectivesTest, GradientsThatReplaceStateArriveBeforeTheNextOnesTravel) {
  const std::string text = R"(graph "backward" {
  %0 = input() {dtype="f32", name="a", shape=[2]} : f32[2] @a #gradient
  %1 = input() {dtype="f32", name="b", shape=[2]} : f32[2] @b #gradient
  %2 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %3 = exp(%2) : f32[4] @b
  %4 = reduce_scatter(%3) {axes="x", dims=[0], parts=2} : f32[2] @b #collective
  %5 = tanh(%3) : f32[4] @a
  %6 = reduce_scatter(%5) {axes="x", dims=[0], parts=2} : f32[2] @a #collective
  %7 = cos(%5) : f32[4] @embed
  output "a" = %6 donates "a"
  output "b" = %4 donates "b"
  output "y" = %7
}
)";
  EXPECT_EQ(overlapped(text, 1), (Order{"exp b", "start b", "tanh a", "done b", "start a", "cos embed", "done a"}));
  EXPECT_EQ(overlapped(text, 0), (Order{"exp b", "reduce_scatter b", "tanh a", "reduce_scatter a", "cos embed"}));
}

TEST(OverlapCollectivesTest, ReductionsStartWithTheirOperandsAndEndWithTheirReader) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4] @b.1
  %2 = tanh(%0) : f32[4] @b.2
  %3 = all_reduce(%1) {axes="x", kind="max", parts=2} : f32[4] @b.3 #collective
  %4 = sin(%0) : f32[4] @b.4
  %5 = mul(%3, %2) : f32[4] @b.5
  %6 = mul(%5, %4) : f32[4] @b.6
  output "y" = %6
}
)";
  EXPECT_EQ(overlapped(text, 1),
            (Order{"exp b.1", "start b.3", "tanh b.2", "sin b.4", "done b.3", "mul b.5", "mul b.6"}));
}

TEST(OverlapCollectivesTest, WhatAnotherCollectiveBringsIsWaitedForFirst) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = permute(%0) {axes="x", parts=2, shift=1} : f32[4] @b.1 #collective
  %2 = tanh(%0) : f32[4] @b.2
  %3 = permute(%1) {axes="x", parts=2, shift=1} : f32[4] @b.3 #collective
  %4 = exp(%1) : f32[4] @b.4
  output "y" = %2
  output "z" = %3
  output "w" = %4
}
)";
  EXPECT_EQ(overlapped(text, 1), (Order{"start b.1", "tanh b.2", "done b.1", "start b.3", "exp b.4", "done b.3"}));
}

TEST(OverlapCollectivesTest, AroundARingTheNextRunTravelsWhileOneIsUsed) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4] @b.own
  %2 = permute(%0) {axes="x", parts=2, shift=1} : f32[4] @b.1 #collective
  %3 = mul(%1, %2) : f32[4] @b.use1
  %4 = permute(%2) {axes="x", parts=2, shift=1} : f32[4] @b.2 #collective
  %5 = mul(%3, %4) : f32[4] @b.use2
  output "y" = %5
}
)";
  EXPECT_EQ(overlapped(text, 1),
            (Order{"start b.1", "exp b.own", "done b.1", "start b.2", "mul b.use1", "done b.2", "mul b.use2"}));
}

TEST(OverlapCollectivesTest, NoMoreAreUnderWayThanATransportTakes) {
  std::string body = "  %0 = input() {dtype=\"f32\", name=\"x\", shape=[4]} : f32[4] #batch\n", outputs;
  for (int i = 1; i <= 2 * kMaxStarted; ++i) {
    const std::string id = "%" + std::to_string(i);
    body += "  " + id + " = permute(%0) {axes=\"x\", parts=2, shift=1} : f32[4] @b" + std::to_string(i) + "\n";
    outputs += "  output \"" + id + "\" = " + id + "\n";
  }
  const std::string last = "%" + std::to_string(2 * kMaxStarted + 1);
  const ir::Graph graph =
      overlap_collectives(ir::parse("graph \"g\" {\n" + body + "  " + last + " = exp(%0) : f32[4]\n" + outputs +
                                    "  output \"y\" = " + last + "\n}\n"),
                          {});
  int64_t open = 0, most = 0;
  for (const ir::Node& node : graph.nodes()) {
    open += node.op == ops::kStartOp ? 1 : node.op == ops::kDoneOp ? -1 : 0;
    most = std::max(most, open);
  }
  EXPECT_EQ(open, 0);
  EXPECT_EQ(most, kMaxStarted);
}

TEST(OverlapCollectivesTest, RandomProgramsComputeTheSame) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph before = testing_support::random_chip_program(seed, 5 + static_cast<int>(seed % 40));
    const ir::Graph ordered =
        order_for_low_peak(lower_elementwise(fuse(bucket_collectives(before, {.unit = BucketPolicy::Unit::block}))));
    const ir::Graph after = overlap_collectives(ordered, {.prefetch = 1});
    ops::verify(after, ops::Form::fused);
    EXPECT_EQ(ir::print(after), ir::print(overlap_collectives(ordered, {.prefetch = 1})));
    testing_support::expect_same_on_two_chips(before, after);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace megacpp::schedule
