// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/join_conv_grads.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kConvInputs = R"(graph "g" {
  %0 = input() {dtype="bf16", name="x", shape=[2,5,3]} : bf16[2,5,3] #batch
  %1 = input() {dtype="bf16", name="w", shape=[3,4]} : bf16[3,4] #weight
  %2 = input() {dtype="bf16", name="dy", shape=[2,5,3]} : bf16[2,5,3] #batch
)";
constexpr const char* kBiasGrad = "  %3 = reduce(%2) {dims=[0,1], kind=\"sum\"} : bf16[3]\n";
constexpr const char* kInputGrad = "  %4 = causal_conv(%2, %1) {reverse=1} : bf16[2,5,3] @M.conv\n";
constexpr const char* kWeightGrad = "  %5 = causal_conv_weight(%0, %2) {reverse=0, width=4} : bf16[3,4] @M.conv\n";
constexpr const char* kThreeOutputs = "  output \"db\" = %3\n  output \"dx\" = %4\n  output \"dw\" = %5\n";

Target target_with_conv_grad(bool runs_joined) {
  return {.name = "test",
          .runs =
              [runs_joined](std::string_view, const ops::NodeView&) {
                return runs_joined ? base::Decision::yes() : base::Decision::no("it has no kernel");
              },
          .workspace_bytes = {}};
}

std::string with_conv_inputs(const std::string& rest) { return kConvInputs + rest + "}\n"; }

std::string conv_grads_joined(const std::string& rest, bool runs_joined = true) {
  return ir::print(join_conv_grads(ir::parse(with_conv_inputs(rest)), target_with_conv_grad(runs_joined)));
}

TEST(JoinConvGradsTest, GradientsOfInputWeightAndBiasAreOne) {
  EXPECT_EQ(
      conv_grads_joined(std::string(kBiasGrad) + kInputGrad + kWeightGrad + kThreeOutputs),
      with_conv_inputs("  %3, %4, %5 = causal_conv_grad(%0, %2, %1) {reverse=0} : bf16[2,5,3], bf16[3,4], bf16[3] "
                       "@M.conv\n  output \"db\" = %5\n  output \"dx\" = %3\n  output \"dw\" = %4\n"));
}

TEST(JoinConvGradsTest, WithoutABiasThereAreTwo) {
  EXPECT_EQ(
      conv_grads_joined("  %3 = causal_conv_weight(%0, %2) {reverse=0, width=4} : bf16[3,4]\n"
                        "  %4 = causal_conv(%2, %1) {reverse=1} : bf16[2,5,3]\n"
                        "  output \"dw\" = %3\n  output \"dx\" = %4\n"),
      with_conv_inputs("  %3, %4, %5 = causal_conv_grad(%0, %2, %1) {reverse=0} : bf16[2,5,3], bf16[3,4], bf16[3]\n"
                       "  output \"dw\" = %4\n  output \"dx\" = %3\n"));
}

TEST(JoinConvGradsTest, WhatTheTargetWouldNotRunStays) {
  const std::string rest = std::string(kBiasGrad) + kInputGrad + kWeightGrad + kThreeOutputs;
  EXPECT_EQ(conv_grads_joined(rest, false), with_conv_inputs(rest));
}

TEST(JoinConvGradsTest, AConvolutionTheSameWayRoundOrOfAnotherWidthStays) {
  for (const char* other : {"{reverse=0, width=3} : bf16[3,3]", "{reverse=1, width=4} : bf16[3,4]"}) {
    const std::string rest =
        "  %3 = causal_conv(%2, %1) {reverse=1} : bf16[2,5,3]\n  %4 = causal_conv_weight(%0, %2) " +
        std::string(other) + "\n  output \"dx\" = %3\n  output \"dw\" = %4\n";
    EXPECT_EQ(conv_grads_joined(rest), with_conv_inputs(rest));
  }
}

TEST(JoinConvGradsTest, AnInputThatIsMadeLaterIsNotWaitedFor) {
  const std::string rest =
      "  %3 = causal_conv(%2, %1) {reverse=1} : bf16[2,5,3]\n  %4 = exp(%0) : bf16[2,5,3]\n"
      "  %5 = causal_conv_weight(%4, %2) {reverse=0, width=4} : bf16[3,4]\n"
      "  output \"dx\" = %3\n  output \"dw\" = %5\n";
  EXPECT_EQ(conv_grads_joined(rest), with_conv_inputs(rest));
}

// The gradient of a sum of two convolutions is that of both: each has its own joined node, and the sum that is a bias's
// gradient belongs to one of them.
TEST(JoinConvGradsTest, TwoConvolutionsOfOneGradientAreJoinedEachByItself) {
  const std::string more_inputs =
      "  %3 = input() {dtype=\"bf16\", name=\"x2\", shape=[2,5,3]} : bf16[2,5,3] #batch\n"
      "  %4 = input() {dtype=\"bf16\", name=\"w2\", shape=[3,4]} : bf16[3,4] #weight\n";
  const std::string outputs =
      "  output \"db\" = {}\n  output \"dx\" = {}\n  output \"dx2\" = {}\n  output \"dw\" = {}\n  output \"dw2\" = "
      "{}\n";
  const auto with_values = [&outputs](std::initializer_list<const char*> values) {
    std::string text = outputs;
    for (const char* value : values) text.replace(text.find("{}"), 2, value);
    return text;
  };
  EXPECT_EQ(
      conv_grads_joined(more_inputs +
                        "  %5 = reduce(%2) {dims=[0,1], kind=\"sum\"} : bf16[3]\n"
                        "  %6 = causal_conv(%2, %1) {reverse=1} : bf16[2,5,3]\n"
                        "  %7 = causal_conv(%2, %4) {reverse=1} : bf16[2,5,3]\n"
                        "  %8 = causal_conv_weight(%0, %2) {reverse=0, width=4} : bf16[3,4]\n"
                        "  %9 = causal_conv_weight(%3, %2) {reverse=0, width=4} : bf16[3,4]\n" +
                        with_values({"%5", "%6", "%7", "%8", "%9"})),
      with_conv_inputs(more_inputs +
                       "  %5, %6, %7 = causal_conv_grad(%0, %2, %1) {reverse=0} : bf16[2,5,3], bf16[3,4], bf16[3]\n"
                       "  %8, %9, %10 = causal_conv_grad(%3, %2, %4) {reverse=0} : bf16[2,5,3], bf16[3,4], bf16[3]\n" +
                       with_values({"%7", "%5", "%8", "%6", "%9"})));
}

TEST(JoinConvGradsTest, AWeightWhosePartnerIsTakenStays) {
  EXPECT_EQ(
      conv_grads_joined("  %3 = causal_conv(%2, %1) {reverse=1} : bf16[2,5,3]\n"
                        "  %4 = causal_conv_weight(%0, %2) {reverse=0, width=4} : bf16[3,4]\n"
                        "  %5 = causal_conv_weight(%2, %2) {reverse=0, width=4} : bf16[3,4]\n"
                        "  output \"dx\" = %3\n  output \"dw\" = %4\n  output \"dw2\" = %5\n"),
      with_conv_inputs("  %3, %4, %5 = causal_conv_grad(%0, %2, %1) {reverse=0} : bf16[2,5,3], bf16[3,4], bf16[3]\n"
                       "  %6 = causal_conv_weight(%2, %2) {reverse=0, width=4} : bf16[3,4]\n"
                       "  output \"dx\" = %3\n  output \"dw\" = %4\n  output \"dw2\" = %6\n"));
}

}  // namespace
}  // namespace megacpp::schedule
