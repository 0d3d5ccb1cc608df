// SPDX-License-Identifier: Apache-2.0
// Passes that are programs of their own; those that are one program stand in tests/golden/passes/offload_activations.
#include "megacpp/program/schedule/offload_activations.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "tests/support/tensors.h"

namespace megacpp::schedule {
namespace {

using Names = std::set<std::string>;

const Names kCandidates = {"kept.0", "kept.1", "kept.2", "kept.3", "kept.of another program"};
const HandedOver kHandedOver = {.candidates = kCandidates,
                                .offloaded = {"kept.0", "kept.1", "kept.2", "kept.of another program"}};

constexpr const char* kForwardPass = R"(graph "forward" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @block00.A #weight
  %2 = exp(%0) : f32[4] @block00.A #activation
  %3 = sin(%2) : f32[4] @block01.E #activation
  %4 = mul(%3, %1) : f32[4] @block02.A #activation
  %5 = sin(%4) : f32[4] @block03.E #activation
  %6 = exp(%5) : f32[4] @head
  output "carry.y" = %6
  output "kept.0" = %2
  output "kept.1" = %3
  output "kept.2" = %4
  output "kept.3" = %5
}
)";

constexpr const char* kBackwardPass = R"(graph "backward" {
  %0 = input() {dtype="f32", name="cotangent.y", shape=[4]} : f32[4] #activation
  %1 = input() {dtype="f32", name="kept.0", shape=[4]} : f32[4] @block00.A #activation
  %2 = input() {dtype="f32", name="kept.1", shape=[4]} : f32[4] @block01.E #activation
  %3 = input() {dtype="f32", name="kept.2", shape=[4]} : f32[4] @block02.A #activation
  %4 = reshape(%2) {shape=[2,2]} : f32[2,2] @block01.E
  %5 = mul(%0, %3) : f32[4] @block03.E
  %6 = mul(%5, %5) : f32[4] @block02.A
  %7 = reshape(%6) {shape=[2,2]} : f32[2,2] @block02.A
  %8 = mul(%7, %4) : f32[2,2] @block02.A
  %9 = reshape(%8) {shape=[4]} : f32[4] @block01.E
  %10 = mul(%9, %1) : f32[4] @block01.E
  output "cotangent.x" = %10
}
)";

TEST(OffloadActivationsTest, WhatTheForwardPassHandsOverLeavesInTheHostsMemory) {
  const ir::Graph after = store_outputs(ir::parse(kForwardPass), kHandedOver);
  ops::verify(after, ops::Form::built);
  EXPECT_EQ(ir::print(after), R"(graph "forward" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @block00.A #weight
  %2 = exp(%0) : f32[4] @block00.A #activation
  %3 = sin(%2) : f32[4] @block01.E #activation
  %4 = copy_start(%2) {to="host"} : f32[4] @block00.A #activation
  %5 = mul(%3, %1) : f32[4] @block02.A #activation
  %6 = copy_start(%3) {to="host"} : f32[4] @block01.E #activation
  %7 = copy_done(%4) : f32[4] @block00.A #activation
  %8 = sin(%5) : f32[4] @block03.E #activation
  %9 = copy_start(%5) {to="host"} : f32[4] @block02.A #activation
  %10 = copy_done(%6) : f32[4] @block01.E #activation
  %11 = exp(%8) : f32[4] @head
  %12 = copy_done(%9) : f32[4] @block02.A #activation
  output "carry.y" = %11
  output "kept.0" = %7
  output "kept.1" = %10
  output "kept.2" = %12
  output "kept.3" = %8
}
)");
}

// The first has nothing to travel beside; the others start a block ahead. Shapes are made of what has come.
TEST(OffloadActivationsTest, TheBackwardPassFetchesThemOneBlockAhead) {
  const ir::Graph after = fetch_inputs(ir::parse(kBackwardPass), kHandedOver);
  ops::verify(after, ops::Form::built);
  EXPECT_EQ(ir::print(after), R"(graph "backward" {
  %0 = input() {dtype="f32", name="cotangent.y", shape=[4]} : f32[4] #activation
  %1 = input() {dtype="f32", memory="host", name="kept.0", shape=[4]} : f32[4] @block00.A #activation
  %2 = input() {dtype="f32", memory="host", name="kept.1", shape=[4]} : f32[4] @block01.E #activation
  %3 = input() {dtype="f32", memory="host", name="kept.2", shape=[4]} : f32[4] @block02.A #activation
  %4 = copy_start(%3) {to="device"} : f32[4] @block02.A #activation
  %5 = copy_start(%2) {to="device"} : f32[4] @block01.E #activation
  %6 = copy_done(%4) : f32[4] @block02.A #activation
  %7 = mul(%0, %6) : f32[4] @block03.E
  %8 = mul(%7, %7) : f32[4] @block02.A
  %9 = reshape(%8) {shape=[2,2]} : f32[2,2] @block02.A
  %10 = copy_start(%1) {to="device"} : f32[4] @block00.A #activation
  %11 = copy_done(%5) : f32[4] @block01.E #activation
  %12 = reshape(%11) {shape=[2,2]} : f32[2,2] @block01.E
  %13 = mul(%9, %12) : f32[2,2] @block02.A
  %14 = reshape(%13) {shape=[4]} : f32[4] @block01.E
  %15 = copy_done(%10) : f32[4] @block00.A #activation
  %16 = mul(%14, %15) : f32[4] @block01.E
  output "cotangent.x" = %16
}
)");
}

// Runs are those of all blocks: a store is done when the next block is, chosen or not.
TEST(OffloadActivationsTest, WhatIsNotChosenIsWorkToTravelBeside) {
  const ir::Graph stored = store_outputs(ir::parse(kForwardPass), {.candidates = kCandidates, .offloaded = {"kept.1"}});
  EXPECT_EQ(ir::print(stored), R"(graph "forward" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @block00.A #weight
  %2 = exp(%0) : f32[4] @block00.A #activation
  %3 = sin(%2) : f32[4] @block01.E #activation
  %4 = mul(%3, %1) : f32[4] @block02.A #activation
  %5 = copy_start(%3) {to="host"} : f32[4] @block01.E #activation
  %6 = sin(%4) : f32[4] @block03.E #activation
  %7 = copy_done(%5) : f32[4] @block01.E #activation
  %8 = exp(%6) : f32[4] @head
  output "carry.y" = %8
  output "kept.0" = %2
  output "kept.1" = %7
  output "kept.2" = %4
  output "kept.3" = %6
}
)");
  const ir::Graph fetched =
      fetch_inputs(ir::parse(kBackwardPass), {.candidates = kCandidates, .offloaded = {"kept.0"}});
  EXPECT_EQ(ir::print(fetched), R"(graph "backward" {
  %0 = input() {dtype="f32", name="cotangent.y", shape=[4]} : f32[4] #activation
  %1 = input() {dtype="f32", memory="host", name="kept.0", shape=[4]} : f32[4] @block00.A #activation
  %2 = input() {dtype="f32", name="kept.1", shape=[4]} : f32[4] @block01.E #activation
  %3 = input() {dtype="f32", name="kept.2", shape=[4]} : f32[4] @block02.A #activation
  %4 = reshape(%2) {shape=[2,2]} : f32[2,2] @block01.E
  %5 = mul(%0, %3) : f32[4] @block03.E
  %6 = mul(%5, %5) : f32[4] @block02.A
  %7 = reshape(%6) {shape=[2,2]} : f32[2,2] @block02.A
  %8 = copy_start(%1) {to="device"} : f32[4] @block00.A #activation
  %9 = mul(%7, %4) : f32[2,2] @block02.A
  %10 = reshape(%9) {shape=[4]} : f32[4] @block01.E
  %11 = copy_done(%8) : f32[4] @block00.A #activation
  %12 = mul(%10, %11) : f32[4] @block01.E
  output "cotangent.x" = %12
}
)");
}

TEST(OffloadActivationsTest, BothProgramsComputeTheSame) {
  const ir::Graph forward = ir::parse(kForwardPass), backward = ir::parse(kBackwardPass);
  const auto inputs = testing_support::random_inputs(forward, "forward");
  const auto wanted = ops::evaluate(forward, inputs), got = ops::evaluate(store_outputs(forward, kHandedOver), inputs);
  for (const auto& [name, tensor] : wanted) EXPECT_TRUE(testing_support::is_close(got.at(name), tensor, 0.0)) << name;
  const auto kept = testing_support::random_inputs(backward, "backward");
  EXPECT_TRUE(testing_support::is_close(ops::evaluate(fetch_inputs(backward, kHandedOver), kept).at("cotangent.x"),
                                        ops::evaluate(backward, kept).at("cotangent.x"), 0.0));
}

TEST(OffloadActivationsTest, LargeValuesOfChosenBlocksAreHandedOverThroughTheHost) {
  const ir::Graph forward = ir::parse(kForwardPass);
  const auto of = [&](const OffloadedBlocks& blocks) { return handed_over(forward, "kept.", blocks); };
  const Names all = {"kept.0", "kept.1", "kept.2", "kept.3"};
  EXPECT_EQ(of({.least_bytes = 16}).candidates, all);
  EXPECT_EQ(of({.least_bytes = 16}).offloaded, (Names{"kept.0", "kept.1"})) << "the last two would be waited for";
  EXPECT_EQ(of({.letters = {"E"}, .least_bytes = 16}).candidates, all);
  EXPECT_EQ(of({.letters = {"E"}, .least_bytes = 16}).offloaded, Names{"kept.1"});
  EXPECT_EQ(of({.least_bytes = 17}).candidates, Names());
  EXPECT_EQ(handed_over(forward, "carry.", {.least_bytes = 16}).candidates, Names()) << "made outside blocks";
}

// A collective reads its operand until it is done, and what it brings is there only then: neither is copied before,
// however long that is.
TEST(OffloadActivationsTest, WhatACollectiveHoldsStaysUntilItIsDone) {
  const ir::Graph after = offload_activations(ir::parse(R"(graph "micro_step" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4] @block00.A #activation
  %2 = collective_start(%1) {axes="x", dims=[0], op="all_gather", parts=2} : f32[8] @block00.A #activation
  %3 = sin(%1) : f32[4] @block01.A #activation
  %4 = exp(%3) : f32[4] @block02.A #activation
  %5 = sin(%4) : f32[4] @block03.A #activation
  %6 = exp(%5) : f32[4] @block04.A #activation
  %7 = sin(%6) : f32[4] @block05.A #activation
  %8 = collective_done(%2) {axes="x", op="all_gather", parts=2} : f32[8] @block05.A #activation
  %9 = mul(%7, %6) : f32[4] @block05.A
  %10 = mul(%9, %5) : f32[4] @block04.A
  %11 = mul(%10, %4) : f32[4] @block03.A
  %12 = mul(%11, %3) : f32[4] @block02.A
  %13 = mul(%12, %1) : f32[4] @block01.A
  %14 = exp(%8) : f32[8] @block00.A
  output "grad.x" = %13
  output "grad.w" = %14
}
)"),
                                              {.least_bytes = 1});
  EXPECT_EQ(ir::print(after), R"(graph "micro_step" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4] @block00.A #activation
  %2 = collective_start(%1) {axes="x", dims=[0], op="all_gather", parts=2} : f32[8] @block00.A #activation
  %3 = sin(%1) : f32[4] @block01.A #activation
  %4 = exp(%3) : f32[4] @block02.A #activation
  %5 = copy_start(%3) {to="host"} : f32[4] @block01.A #activation
  %6 = sin(%4) : f32[4] @block03.A #activation
  %7 = copy_start(%4) {to="host"} : f32[4] @block02.A #activation
  %8 = copy_done(%5) : f32[4] @block01.A #activation
  %9 = exp(%6) : f32[4] @block04.A #activation
  %10 = copy_done(%7) : f32[4] @block02.A #activation
  %11 = sin(%9) : f32[4] @block05.A #activation
  %12 = collective_done(%2) {axes="x", op="all_gather", parts=2} : f32[8] @block05.A #activation
  %13 = copy_start(%1) {to="host"} : f32[4] @block00.A #activation
  %14 = copy_start(%12) {to="host"} : f32[8] @block05.A #activation
  %15 = mul(%11, %9) : f32[4] @block05.A
  %16 = copy_done(%13) : f32[4] @block00.A #activation
  %17 = copy_done(%14) : f32[8] @block05.A #activation
  %18 = copy_start(%10) {to="device"} : f32[4] @block02.A #activation
  %19 = mul(%15, %6) : f32[4] @block04.A
  %20 = copy_start(%8) {to="device"} : f32[4] @block01.A #activation
  %21 = copy_done(%18) : f32[4] @block02.A #activation
  %22 = mul(%19, %21) : f32[4] @block03.A
  %23 = copy_start(%16) {to="device"} : f32[4] @block00.A #activation
  %24 = copy_done(%20) : f32[4] @block01.A #activation
  %25 = mul(%22, %24) : f32[4] @block02.A
  %26 = copy_start(%17) {to="device"} : f32[8] @block05.A #activation
  %27 = copy_done(%23) : f32[4] @block00.A #activation
  %28 = mul(%25, %27) : f32[4] @block01.A
  %29 = copy_done(%26) : f32[8] @block05.A #activation
  %30 = exp(%29) : f32[8] @block00.A
  output "grad.x" = %28
  output "grad.w" = %30
}
)");
}

// Inputs of the program, what depends on weights alone, shapes, and what leaves twice.
TEST(OffloadActivationsTest, WhatTheDeviceKeepsAnywayIsNotHandedOverThroughTheHost) {
  const ir::Graph forward = ir::parse(R"(graph "forward" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] @block00.A #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @block00.A #weight
  %2 = input() {dtype="f32", name="bf16.w", shape=[4]} : f32[4] @block00.A #weight_copy
  %3 = exp(%1) : f32[4] @block00.A #activation
  %4 = mul(%3, %2) : f32[4] @block00.A #activation
  %5 = sin(%0) : f32[4] @block00.A #activation
  %6 = exp(%5) : f32[4] @block00.A #activation
  %7 = reshape(%6) {shape=[2,2]} : f32[2,2] @block00.A
  output "kept.input" = %0
  output "kept.weight" = %3
  output "kept.copy" = %4
  output "kept.twice" = %5
  output "carry.y" = %5
  output "kept.shape" = %7
}
)");
  EXPECT_EQ(handed_over(forward, "kept.", {.least_bytes = 1}).candidates, Names());
}

}  // namespace
}  // namespace megacpp::schedule
