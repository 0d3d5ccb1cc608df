// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/narrow_operands.h"

#include <gtest/gtest.h>

#include <string>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/schedule/narrow_results.h"
#include "megacpp/program/schedule/widen_products.h"
#include "tests/support/plain_target.h"
#include "tests/support/tensors.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kHeadProduct = R"(graph "g" {
  %0 = input() {dtype="bf16", name="x", shape=[2,4]} : bf16[2,4] #batch
  %1 = input() {dtype="bf16", name="w", shape=[4,3]} : bf16[4,3] #weight
  %2 = input() {dtype="i32", name="labels", shape=[2]} : i32[2] #batch
  %3 = input() {dtype="f32", name="d", shape=[2]} : f32[2] #batch
  %4 = dot(%0, %1) {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : bf16[2,3] @head
)";
constexpr const char* kWideLoss = R"(  %5 = convert(%4) {dtype="f32"} : f32[2,3] @head #activation
  %6, %7 = cross_entropy(%5, %2) : f32[2], f32[2] @loss
  %8 = cross_entropy_grad(%5, %2, %7, %3, %3) : f32[2,3] @loss
)";
constexpr const char* kWideOutputs = "  output \"losses\" = %6\n  output \"gradient\" = %8\n";

std::string with_head(const std::string& rest) { return kHeadProduct + rest + "}\n"; }

std::string operands_narrowed(const std::string& rest, const Target& target = testing_support::plain_target()) {
  const ir::Graph after = narrow_operands(ir::parse(with_head(rest)), target);
  ops::verify(after, ops::Form::built);
  return ir::print(after);
}

// It runs everything but that op on bf16 logits.
Target target_without_bf16(const std::string& declined) {
  Target target = testing_support::plain_target();
  target.runs = [declined](std::string_view op, const ops::NodeView& view) {
    const bool is_declined = op == declined && view.operands[0].dtype == ir::DType::bf16;
    return is_declined ? base::Decision::no("its kernel reads f32") : base::Decision::yes();
  };
  return target;
}

TEST(NarrowOperandsTest, TheLossReadsLogitsInBf16AndTheConversionGoes) {
  EXPECT_EQ(operands_narrowed(std::string(kWideLoss) + kWideOutputs),
            with_head("  %5, %6 = cross_entropy(%4, %2) : f32[2], f32[2] @loss\n"
                      "  %7 = cross_entropy_grad(%4, %2, %6, %3, %3) {dtype=\"f32\"} : f32[2,3] @loss\n"
                      "  output \"losses\" = %5\n  output \"gradient\" = %7\n"));
}

TEST(NarrowOperandsTest, EveryBitIsThatOfTheProgramAsWritten) {
  const ir::Graph written = ir::parse(with_head(std::string(kWideLoss) + kWideOutputs));
  const ir::Graph narrow = widen_products(narrow_operands(written, testing_support::plain_target()));
  const auto inputs = testing_support::random_inputs(written, "narrow_operands");
  const auto wanted = ops::evaluate(written, inputs), got = ops::evaluate(narrow, inputs);
  const auto unrounded = ops::evaluate(widen_products(written), inputs);
  for (const auto& [name, tensor] : wanted) {
    EXPECT_TRUE(testing_support::is_close(got.at(name), tensor, 0.0)) << name;
    EXPECT_FALSE(testing_support::is_close(unrounded.at(name), tensor, 0.0)) << name << " of logits in f32";
  }
}

TEST(NarrowOperandsTest, AGradientThatIsReadInBf16LeavesBf16AsBefore) {
  const std::string rest = std::string(kWideLoss) + "  %9 = convert(%8) {dtype=\"bf16\"} : bf16[2,3] @head\n" +
                           "  output \"losses\" = %6\n  output \"gradient\" = %9\n";
  const Target target = testing_support::plain_target();
  EXPECT_EQ(ir::print(narrow_results(ir::parse(operands_narrowed(rest)), target)),
            with_head("  %5, %6 = cross_entropy(%4, %2) : f32[2], f32[2] @loss\n"
                      "  %7 = cross_entropy_grad(%4, %2, %6, %3, %3) {dtype=\"bf16\"} : bf16[2,3] @loss\n"
                      "  output \"losses\" = %5\n  output \"gradient\" = %7\n"));
}

TEST(NarrowOperandsTest, WhatTheTargetWouldNotRunStays) {
  const std::string rest = std::string(kWideLoss) + kWideOutputs;
  for (const char* declined : {"cross_entropy", "cross_entropy_grad"})
    EXPECT_EQ(operands_narrowed(rest, target_without_bf16(declined)), with_head(rest)) << declined;
}

TEST(NarrowOperandsTest, LogitsThatAreReadInF32TooStay) {
  const std::string kept = std::string(kWideLoss) + kWideOutputs + "  output \"logits\" = %5\n";
  EXPECT_EQ(operands_narrowed(kept), with_head(kept));
  const std::string summed = std::string(kWideLoss) + "  %9 = reduce(%5) {dims=[0,1], kind=\"sum\"} : f32[]\n" +
                             kWideOutputs + "  output \"sum\" = %9\n";
  EXPECT_EQ(operands_narrowed(summed), with_head(summed));
}

// The gradient widens logits, and nothing else that it reads.
TEST(NarrowOperandsTest, OtherOperandsStay) {
  const std::string rest =
      "  %5 = input() {dtype=\"f32\", name=\"logits\", shape=[2,3]} : f32[2,3] #batch\n"
      "  %6 = input() {dtype=\"bf16\", name=\"lse\", shape=[2]} : bf16[2] #batch\n"
      "  %7 = convert(%6) {dtype=\"f32\"} : f32[2]\n"
      "  %8 = cross_entropy_grad(%5, %2, %7, %3, %3) : f32[2,3] @loss\n"
      "  output \"product\" = %4\n  output \"gradient\" = %8\n";
  EXPECT_EQ(operands_narrowed(rest), with_head(rest));
}

}  // namespace
}  // namespace megacpp::schedule
