// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/narrow_results.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kLossInputs = R"(graph "g" {
  %0 = input() {dtype="f32", name="logits", shape=[2,3]} : f32[2,3] #batch
  %1 = input() {dtype="i32", name="labels", shape=[2]} : i32[2] #batch
  %2 = input() {dtype="f32", name="lse", shape=[2]} : f32[2] #batch
  %3 = input() {dtype="bf16", name="a", shape=[3,2]} : bf16[3,2] #batch
)";

Target target_with_narrow(bool runs_narrow) {
  return {.name = "test",
          .runs =
              [runs_narrow](std::string_view, const ops::NodeView& view) {
                const bool is_narrow = view.results[0].dtype == ir::DType::bf16;
                return runs_narrow || !is_narrow ? base::Decision::yes() : base::Decision::no("it has no kernel");
              },
          .workspace_bytes = {}};
}

std::string with_loss_inputs(const std::string& rest) { return kLossInputs + rest + "}\n"; }

std::string results_narrowed(const std::string& rest, bool runs_narrow = true) {
  return ir::print(narrow_results(ir::parse(with_loss_inputs(rest)), target_with_narrow(runs_narrow)));
}

constexpr const char* kLossGrad =
    "  %4 = cross_entropy_grad(%0, %1, %2, %2, %2) : f32[2,3] @head\n  %5 = convert(%4) {dtype=\"bf16\"} : bf16[2,3]\n";

TEST(NarrowResultsTest, GradientThatIsReadInBf16LeavesBf16) {
  EXPECT_EQ(results_narrowed(std::string(kLossGrad) + "  output \"y\" = %5\n"),
            with_loss_inputs("  %4 = cross_entropy_grad(%0, %1, %2, %2, %2) {dtype=\"bf16\"} : bf16[2,3] @head\n"
                             "  output \"y\" = %4\n"));
}

TEST(NarrowResultsTest, WhatIsReadInF32TooStays) {
  const std::string rest = std::string(kLossGrad) + "  output \"y\" = %5\n  output \"wide\" = %4\n";
  EXPECT_EQ(results_narrowed(rest), with_loss_inputs(rest));
}

TEST(NarrowResultsTest, WhatTheTargetWouldNotRunStays) {
  const std::string rest = std::string(kLossGrad) + "  output \"y\" = %5\n";
  EXPECT_EQ(results_narrowed(rest, false), with_loss_inputs(rest));
}

TEST(NarrowResultsTest, ProductsOfF32StayUnlessTheySumAFew) {
  const auto product_of = [](int64_t summed) {
    const std::string n = std::to_string(summed);
    return "  %4 = input() {dtype=\"f32\", name=\"b\", shape=[2," + n + "]} : f32[2," + n + "] #batch\n" +
           "  %5 = dot(%4, %4) {";
  };
  const std::string dims = "lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : f32[2,2]\n";
  const std::string convert = "  %6 = convert(%5) {dtype=\"bf16\"} : bf16[2,2]\n  output \"y\" = %6\n";
  EXPECT_EQ(results_narrowed(product_of(17) + dims + convert), with_loss_inputs(product_of(17) + dims + convert));
  EXPECT_EQ(results_narrowed(product_of(16) + dims + convert),
            with_loss_inputs(product_of(16) +
                             "dtype=\"bf16\", lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]} : "
                             "bf16[2,2]\n  output \"y\" = %5\n"));
}

TEST(NarrowResultsTest, SumsStay) {
  const std::string square = " {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[2,2]\n";
  const std::string sum =
      "  %4 = input() {dtype=\"f32\", name=\"c\", shape=[2,2]} : f32[2,2] #batch\n"
      "  %5 = dot(%3, %3, %4)" +
      square +
      "  %6 = convert(%5) {dtype=\"bf16\"} : bf16[2,2]\n"
      "  output \"y\" = %6\n";
  EXPECT_EQ(results_narrowed(sum), with_loss_inputs(sum));
}

}  // namespace
}  // namespace megacpp::schedule
