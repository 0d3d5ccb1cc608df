// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/bucket_collectives.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/verify.h"
#include "tests/support/two_chips.h"

namespace megacpp::schedule {
namespace {

using Unit = BucketPolicy::Unit;

// The lines of the collectives, after checking that the graph is legal and computes the same on two chips.
std::vector<std::string> collectives_of(const std::string& text, const BucketPolicy& policy) {
  const ir::Graph before = ir::parse(text);
  ops::verify(before, ops::Form::built);
  const ir::Graph after = bucket_collectives(before, policy);
  ops::verify(after, ops::Form::built);
  EXPECT_EQ(ir::print(after), ir::print(bucket_collectives(before, policy)));

  testing_support::expect_same_on_two_chips(before, after);

  std::vector<std::string> lines;
  const std::string printed = ir::print(after);
  for (size_t at = 0, end = 0; (end = printed.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = printed.substr(at, end - at);
    if (line.find("axes=") != std::string::npos) lines.push_back(line.substr(2));
  }
  return lines;
}

// Two blocks of two weights, gathered in the forward pass and again in the backward pass.
const std::string kModel = R"(graph "step" {
  %0 = input() {dtype="f32", name="a.v", shape=[2]} : f32[2] @block00.A #weight
  %1 = input() {dtype="f32", name="a.w", shape=[2]} : f32[2] @block00.A #weight
  %2 = input() {dtype="f32", name="b.w", shape=[2]} : f32[2] @block01.E #weight
  %3 = input() {dtype="f32", name="grad.a.v", shape=[2]} : f32[2] @block00.A #gradient
  %4 = input() {dtype="f32", name="grad.a.w", shape=[2]} : f32[2] @block00.A #gradient
  %5 = input() {dtype="f32", name="x", shape=[4]} : f32[4] @batch #batch
  %6 = all_gather(%0) {axes="x", cause="use of v", dims=[0], parts=2} : f32[4] @block00.A.in #collective
  %7 = mul(%5, %6) : f32[4] @block00.A.in
  %8 = all_gather(%1) {axes="x", cause="use of w", dims=[0], parts=2} : f32[4] @block00.A.out #collective
  %9 = mul(%7, %8) : f32[4] @block00.A.out
  %10 = all_gather(%2) {axes="x", dims=[0], parts=2} : f32[4] @block01.E #collective
  %11 = mul(%9, %10) : f32[4] @block01.E
  %12 = all_gather(%1) {axes="x", dims=[0], parts=2} : f32[4] @block00.A.out #collective
  %13 = mul(%11, %12) : f32[4] @block00.A.out
  %14 = reduce_scatter(%13) {axes="x", dims=[0], parts=2} : f32[2] @block00.A #collective
  %15 = add(%4, %14) : f32[2] @block00.A
  %16 = all_gather(%0) {axes="x", dims=[0], parts=2} : f32[4] @block00.A.in #collective
  %17 = mul(%13, %16) : f32[4] @block00.A.in
  %18 = reduce_scatter(%17) {axes="x", dims=[0], parts=2} : f32[2] @block00.A #collective
  %19 = add(%3, %18) : f32[2] @block00.A
  output "y" = %11
  output "grad.a.v" = %19 donates "grad.a.v"
  output "grad.a.w" = %15 donates "grad.a.w"
}
)";

TEST(BucketCollectivesTest, OneGatherAndOneReductionForEachVisitOfABlock) {
  EXPECT_EQ(
      collectives_of(kModel, {.unit = Unit::block}),
      (std::vector<std::string>{
          R"(%6, %7 = all_gather(%0, %1) {axes="x", cause="2 as one: use of v", dims=[0,0], parts=2} : f32[4], f32[4] @block00.A #collective)",
          R"(%10 = all_gather(%2) {axes="x", dims=[0], parts=2} : f32[4] @block01.E #collective)",
          R"(%12, %13 = all_gather(%1, %0) {axes="x", dims=[0,0], parts=2} : f32[4], f32[4] @block00.A #collective)",
          R"(%16, %17 = reduce_scatter(%14, %15) {axes="x", dims=[0,0], parts=2} : f32[2], f32[2] @block00.A #collective)"}));
}

TEST(BucketCollectivesTest, TheFirstCauseIsFoundAgain) {
  EXPECT_EQ(first_cause("12 as one: use of v"), "use of v");
  EXPECT_EQ(first_cause("use of v"), "use of v");
  EXPECT_EQ(first_cause("12"), "12");
}

TEST(BucketCollectivesTest, WithoutAUnitTheyStaySingle) { EXPECT_EQ(collectives_of(kModel, {}).size(), 7U); }

TEST(BucketCollectivesTest, ByBytesTheSecondGatherOfAWeightStartsANewBucket) {
  const std::vector<std::string> lines = collectives_of(kModel, {.unit = Unit::bytes, .bytes = 1 << 20});
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[0].find("all_gather(%0, %1, %2)"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("all_gather(%1, %0)"), std::string::npos) << lines[1];
}

// A weight narrowed and gathered, and both again; `role` is what the first gather is for.
std::string narrowed_twice(const std::string& role) {
  return R"(graph "step" {
  %0 = input() {dtype="f32", name="v", shape=[2]} : f32[2] @block00.A #weight
  %1 = input() {dtype="f32", name="w", shape=[2]} : f32[2] @block00.A #weight
  %2 = input() {dtype="bf16", name="x", shape=[4]} : bf16[4] @batch #batch
  %3 = convert(%0) {dtype="bf16"} : bf16[2] @block00.A
  %4 = all_gather(%3) {axes="x", dims=[0], parts=2} : bf16[4] @block00.A #)" +
         role + R"(
  %5 = convert(%1) {dtype="bf16"} : bf16[2] @block00.A
  %6 = all_gather(%5) {axes="x", dims=[0], parts=2} : bf16[4] @block00.A #collective
  %7 = mul(%2, %4) : bf16[4] @block00.A
  %8 = mul(%7, %6) : bf16[4] @block00.A
  %9 = convert(%1) {dtype="bf16"} : bf16[2] @block00.A
  %10 = all_gather(%9) {axes="x", dims=[0], parts=2} : bf16[4] @block00.A #collective
  %11 = mul(%8, %10) : bf16[4] @block00.A
  output "y" = %11
}
)";
}

TEST(BucketCollectivesTest, ASecondGatherOfAWeightThatIsNarrowedAgainStartsANewBucket) {
  const std::vector<std::string> lines = collectives_of(narrowed_twice("collective"), {.unit = Unit::block});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("bf16[4], bf16[4]"), std::string::npos) << lines[0];
}

TEST(BucketCollectivesTest, WhatOneMemberKeepsTheBucketKeeps) {
  EXPECT_TRUE(collectives_of(narrowed_twice("collective"), {.unit = Unit::block})[0].ends_with("#collective"));
  EXPECT_TRUE(collectives_of(narrowed_twice("activation"), {.unit = Unit::block})[0].ends_with("#activation"));
}

// Five gradients reduced before they are read; a norm; one updated weight each.
std::string update_of(const std::vector<int64_t>& sizes) {
  std::string inputs, reductions, sums, gathers, outputs;
  const auto id = [](const std::string& prefix, size_t i) { return "%" + prefix + std::to_string(i); };
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string n = std::to_string(sizes[i]), half = std::to_string(sizes[i] / 2), p = std::to_string(i);
    inputs += "  " + id("10", i) + " = input() {dtype=\"f32\", name=\"grad." + p + "\", shape=[" + n + "]} : f32[" + n +
              "] @p" + p + " #gradient\n";
    inputs += "  " + id("20", i) + " = input() {dtype=\"f32\", name=\"" + p + "\", shape=[" + n + "]} : f32[" + n +
              "] @p" + p + " #weight\n";
    reductions += "  " + id("30", i) + " = reduce_scatter(" + id("10", i) + ") {axes=\"x\", dims=[0], parts=2} : f32[" +
                  half + "] @p" + p + " #collective\n";
    sums += "  " + id("40", i) + " = reduce(" + id("30", i) + ") {dims=[0], kind=\"sum\"} : f32[]\n";
    sums += "  " + id("50", i) + " = all_reduce(" + id("40", i) +
            ") {axes=\"x\", kind=\"sum\", parts=2} : f32[] #collective\n";
    gathers +=
        "  " + id("60", i) + " = broadcast(" + id("50", 0) + ") {dims=[], shape=[" + half + "]} : f32[" + half + "]\n";
    gathers += "  " + id("70", i) + " = mul(" + id("30", i) + ", " + id("60", i) + ") : f32[" + half + "]\n";
    gathers += "  " + id("80", i) + " = all_gather(" + id("70", i) + ") {axes=\"x\", dims=[0], parts=2} : f32[" + n +
               "] @p" + p + " #collective\n";
    outputs += "  output \"" + p + "\" = " + id("80", i) + " donates \"" + p + "\"\n";
    outputs += "  output \"norm" + p + "\" = " + id("50", i) + "\n";
  }
  return "graph \"update\" {\n" + inputs + reductions + sums + gathers + outputs + "}\n";
}

std::vector<size_t> counts_of(const std::vector<std::string>& lines, const std::string& op) {
  std::vector<size_t> counts;
  for (const std::string& line : lines) {
    const size_t at = line.find(op + "(");
    if (at == std::string::npos) continue;
    const std::string operands = line.substr(at, line.find(')') - at);
    counts.push_back(1 + static_cast<size_t>(std::count(operands.begin(), operands.end(), ',')));
  }
  return counts;
}

TEST(BucketCollectivesTest, ABucketClosesAfterTheTensorThatFillsIt) {
  const BucketPolicy policy{
      .unit = Unit::bytes, .bytes = 4 * 20, .start_multiple = 1, .order = BucketPolicy::Order::reversed};
  // Backwards: 8 + 8 + 10 reach 20 elements, then 30 does by itself, then 2 is left.
  const std::vector<std::string> lines = collectives_of(update_of({2, 30, 10, 8, 8}), policy);
  EXPECT_EQ(counts_of(lines, "reduce_scatter"), (std::vector<size_t>{1, 1, 3})) << "the last parameter's comes last";
  EXPECT_EQ(counts_of(lines, "all_gather"), (std::vector<size_t>{1, 1, 3}));
}

TEST(BucketCollectivesTest, StartsInABucketAreRoundedUpWhenCounting) {
  const BucketPolicy policy{.unit = Unit::bytes, .bytes = 4 * 128, .start_multiple = 64};
  EXPECT_EQ(counts_of(collectives_of(update_of({2, 2, 66, 2}), policy), "reduce_scatter"),
            (std::vector<size_t>{2, 1, 1}));
}

TEST(BucketCollectivesTest, FewNumbersAreReducedTogetherWithAnyPolicy) {
  EXPECT_EQ(counts_of(collectives_of(update_of({2, 30, 10}), {}), "all_reduce"), (std::vector<size_t>{3}));
}

TEST(BucketCollectivesTest, NumbersThatAreReadBeforeTheNextIsThereAreNotHeldUp) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] #batch
  %1 = reduce(%0) {dims=[0], kind="sum"} : f32[]
  %2 = all_reduce(%1) {axes="x", kind="sum", parts=2} : f32[] #collective
  %3 = all_reduce(%1) {axes="x", kind="max", parts=2} : f32[] #collective
  %4 = exp(%2) : f32[]
  %5 = reduce(%0) {dims=[0], kind="max"} : f32[]
  %6 = all_reduce(%5) {axes="x", kind="sum", parts=2} : f32[] #collective
  %7 = all_reduce(%4) {axes="x", kind="sum", parts=2} : f32[] #collective
  %8 = all_reduce(%5) {axes="x", kind="max", parts=2} : f32[] #collective
  output "a" = %3
  output "b" = %6
  output "c" = %7
  output "d" = %8
}
)";
  const std::vector<std::string> lines = collectives_of(text, {});
  EXPECT_EQ(counts_of(lines, "all_reduce"), (std::vector<size_t>{1, 1, 1, 2})) << "sums apart, both maxima together";
}

TEST(BucketCollectivesTest, PermutesTravelTogetherWhenTheyAreReadyTogether) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] #batch
  %1 = exp(%0) : f32[3]
  %2 = permute(%0) {axes="x", parts=2, shift=1} : f32[3] #collective
  %3 = permute(%1) {axes="x", parts=2, shift=1} : f32[3] #collective
  %4 = tanh(%0) : f32[3]
  %5 = permute(%4) {axes="x", parts=2, shift=1} : f32[3] #collective
  output "a" = %2
  output "b" = %3
  output "c" = %5
}
)";
  EXPECT_EQ(counts_of(collectives_of(text, {}), "permute"), (std::vector<size_t>{2, 1}));
}

TEST(BucketCollectivesTest, AllToAllsThatMoveAlikeTravelTogetherWhateverTheirDtype) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="rows", shape=[3,4,2]} : f32[3,4,2] #batch
  %1 = input() {dtype="i32", name="used", shape=[3,4]} : i32[3,4] #batch
  %2 = all_to_all(%0) {axes="x", concat=0, parts=2, split=1} : f32[6,2,2] #collective
  %3 = all_to_all(%1) {axes="x", concat=0, parts=2, split=1} : i32[6,2] #collective
  %4 = all_to_all(%0) {axes="x", concat=0, parts=2, split=2} : f32[6,4,1] #collective
  output "a" = %2
  output "b" = %3
  output "c" = %4
}
)";
  EXPECT_EQ(counts_of(collectives_of(text, {}), "all_to_all"), (std::vector<size_t>{2, 1}));
}

// The second tensor of the first pair waits for the first of the second pair, and the other way around.
TEST(BucketCollectivesTest, BucketsNeverWaitForEachOther) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="g", shape=[4]} : f32[4] #gradient
  %1 = input() {dtype="f32", name="h", shape=[4]} : f32[4] #gradient
  %2 = reduce_scatter(%0) {axes="x", dims=[0], parts=2} : f32[2] #collective
  %3 = all_reduce(%2) {axes="x", kind="sum", parts=2} : f32[2] #collective
  %4 = all_reduce(%1) {axes="x", kind="sum", parts=2} : f32[4] #collective
  %5 = reduce_scatter(%4) {axes="x", dims=[0], parts=2} : f32[2] #collective
  %6 = add(%3, %5) : f32[2]
  output "y" = %6
}
)";
  EXPECT_EQ(collectives_of(text, {.unit = Unit::bytes, .bytes = 1 << 20}).size(), 4U);
}

}  // namespace
}  // namespace megacpp::schedule
