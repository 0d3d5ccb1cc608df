// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/fold_sums.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kSumInputs = R"(graph "g" {
  %0 = input() {dtype="bf16", name="a", shape=[2,3]} : bf16[2,3] #batch
  %1 = input() {dtype="bf16", name="b", shape=[3,4]} : bf16[3,4] #weight
  %2 = input() {dtype="bf16", name="x", shape=[2,4]} : bf16[2,4] #batch
)";
constexpr const char* kSumDims =
    "{lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : bf16[2,4] @block00.E";

Target target_with_addends(bool runs_addends) {
  return {.name = "test",
          .runs =
              [runs_addends](std::string_view, const ops::NodeView&) {
                return runs_addends ? base::Decision::yes() : base::Decision::no("it has no kernel");
              },
          .workspace_bytes = {}};
}

std::string with_sum_inputs(const std::string& rest) { return kSumInputs + rest + "}\n"; }

std::string sums_folded(const std::string& rest, bool runs_addends = true) {
  return ir::print(fold_sums(ir::parse(with_sum_inputs(rest)), target_with_addends(runs_addends)));
}

std::string sum_dot(const std::string& operands) { return "dot(" + operands + ") " + kSumDims; }

TEST(FoldSumsTest, ResidualIsAddedInsideTheProduct) {
  for (const char* operands : {"%2, %3", "%3, %2"})
    EXPECT_EQ(sums_folded("  %3 = " + sum_dot("%0, %1") + "\n  %4 = add(" + operands +
                          ") : bf16[2,4] @block00 #activation\n  output \"y\" = %4\n"),
              with_sum_inputs("  %3 = " + sum_dot("%0, %1, %2") + " #activation\n  output \"y\" = %3\n"));
}

TEST(FoldSumsTest, AReshapeMayStandBetween) {
  EXPECT_EQ(sums_folded("  %3 = " + sum_dot("%0, %1") +
                        "\n  %4 = reshape(%3) {shape=[8]} : bf16[8]\n"
                        "  %5 = reshape(%2) {shape=[8]} : bf16[8]\n"
                        "  %6 = add(%5, %4) : bf16[8] @block00 #activation\n  output \"y\" = %6\n"),
            with_sum_inputs("  %3 = reshape(%2) {shape=[8]} : bf16[8]\n"
                            "  %4 = reshape(%3) {shape=[2,4]} : bf16[2,4] @block00 #activation\n  %5 = " +
                            sum_dot("%0, %1, %4") +
                            " #activation\n  %6 = reshape(%5) {shape=[8]} : bf16[8] @block00 #activation\n"
                            "  output \"y\" = %6\n"));
}

TEST(FoldSumsTest, AReshapeWithAnotherReaderStays) {
  const std::string rest = "  %3 = " + sum_dot("%0, %1") +
                           "\n  %4 = reshape(%3) {shape=[8]} : bf16[8]\n"
                           "  %5 = reshape(%2) {shape=[8]} : bf16[8]\n"
                           "  %6 = add(%5, %4) : bf16[8]\n  output \"y\" = %6\n  output \"part\" = %4\n";
  EXPECT_EQ(sums_folded(rest), with_sum_inputs(rest));
}

TEST(FoldSumsTest, SumOfThreeProductsIsAChain) {
  EXPECT_EQ(
      sums_folded("  %3 = " + sum_dot("%0, %1") + "\n  %4 = " + sum_dot("%0, %1") + "\n  %5 = " + sum_dot("%0, %1") +
                  "\n  %6 = add(%4, %3) : bf16[2,4]\n  %7 = add(%6, %5) : bf16[2,4]\n  output \"y\" = %7\n"),
      with_sum_inputs("  %3 = " + sum_dot("%0, %1") + "\n  %4 = " + sum_dot("%0, %1, %3") +
                      "\n  %5 = " + sum_dot("%0, %1, %4") + "\n  output \"y\" = %5\n"));
}

TEST(FoldSumsTest, ProductWaitsForAnAddendThatIsMadeLater) {
  EXPECT_EQ(sums_folded("  %3 = " + sum_dot("%0, %1") +
                        "\n  %4 = exp(%2) : bf16[2,4]\n  %5 = add(%3, %4) : bf16[2,4]\n  output \"y\" = %5\n"
                        "  output \"e\" = %4\n"),
            with_sum_inputs("  %3 = exp(%2) : bf16[2,4]\n  %4 = " + sum_dot("%0, %1, %3") +
                            "\n  output \"y\" = %4\n  output \"e\" = %3\n"));
}

TEST(FoldSumsTest, ProductMovesBehindAKernelThatMakesItsAddend) {
  EXPECT_EQ(
      sums_folded("  %3 = " + sum_dot("%0, %1") +
                  "\n  %4 = cumsum(%2) {dim=0} : bf16[2,4]\n  %5 = add(%4, %3) : bf16[2,4]\n  output \"y\" = %5\n"),
      with_sum_inputs("  %3 = cumsum(%2) {dim=0} : bf16[2,4]\n  %4 = " + sum_dot("%0, %1, %3") +
                      "\n  output \"y\" = %4\n"));
}

// bf16[3,4] is larger than the product, bf16[2,4].
TEST(FoldSumsTest, ProductDoesNotMoveWhereWhatItReadsIsLargerAndWouldBeHeld) {
  const std::string made = "  %3 = cumsum(%1) {dim=0} : bf16[3,4]\n  %4 = " + sum_dot("%0, %3") +
                           "\n  %5 = cumsum(%2) {dim=0} : bf16[2,4]\n  %6 = add(%4, %5) : bf16[2,4]\n"
                           "  output \"y\" = %6\n";
  EXPECT_EQ(sums_folded(made), with_sum_inputs(made));
  EXPECT_EQ(sums_folded(made + "  output \"b\" = %3\n"),
            with_sum_inputs("  %3 = cumsum(%1) {dim=0} : bf16[3,4]\n  %4 = cumsum(%2) {dim=0} : bf16[2,4]\n  %5 = " +
                            sum_dot("%0, %3, %4") + "\n  output \"y\" = %5\n  output \"b\" = %3\n"))
      << "it is there anyway";
  // bf16[2,3] is smaller.
  EXPECT_EQ(
      sums_folded("  %3 = cumsum(%0) {dim=0} : bf16[2,3]\n  %4 = " + sum_dot("%3, %1") +
                  "\n  %5 = cumsum(%2) {dim=0} : bf16[2,4]\n  %6 = add(%4, %5) : bf16[2,4]\n  output \"y\" = %6\n"),
      with_sum_inputs("  %3 = cumsum(%0) {dim=0} : bf16[2,3]\n  %4 = cumsum(%2) {dim=0} : bf16[2,4]\n  %5 = " +
                      sum_dot("%3, %1, %4") + "\n  output \"y\" = %5\n"));
}

TEST(FoldSumsTest, ProductsThatShareAnAddendMoveEachToItsSum) {
  const std::string both = "  %3 = cumsum(%0) {dim=0} : bf16[2,3]\n  %4 = " + sum_dot("%3, %1") +
                           "\n  %5 = cumsum(%0) {dim=1} : bf16[2,3]\n  %6 = " + sum_dot("%5, %1") +
                           "\n  %7 = cumsum(%2) {dim=0} : bf16[2,4]\n  %8 = add(%4, %7) : bf16[2,4]\n"
                           "  %9 = add(%6, %7) : bf16[2,4]\n  output \"y\" = %8\n  output \"z\" = %9\n";
  EXPECT_EQ(sums_folded(both),
            with_sum_inputs("  %3 = cumsum(%0) {dim=0} : bf16[2,3]\n  %4 = cumsum(%0) {dim=1} : bf16[2,3]\n"
                            "  %5 = cumsum(%2) {dim=0} : bf16[2,4]\n  %6 = " +
                            sum_dot("%3, %1, %5") + "\n  %7 = " + sum_dot("%4, %1, %5") +
                            "\n  output \"y\" = %6\n  output \"z\" = %7\n"));
}

TEST(FoldSumsTest, ProductDoesNotReadStateBehindWhatReplacesIt) {
  const std::string state =
      "  %3 = input() {dtype=\"bf16\", name=\"s\", shape=[3,4]} : bf16[3,4] #weight\n  %4 = " + sum_dot("%0, %3") +
      "\n  %5 = cumsum(%2) {dim=0} : bf16[2,4]\n  %6 = add(%4, %5) : bf16[2,4]\n  %7 = cumsum(%1) {dim=0} : bf16[3,4]\n"
      "  output \"y\" = %6\n  output \"s\" = %7 donates \"s\"\n";
  EXPECT_EQ(sums_folded(state), with_sum_inputs(state));
}

TEST(FoldSumsTest, AddendMayBeSeenInAnotherShape) {
  EXPECT_EQ(sums_folded("  %3 = input() {dtype=\"bf16\", name=\"flat\", shape=[8]} : bf16[8] #batch\n"
                        "  %4 = reshape(%3) {shape=[2,4]} : bf16[2,4]\n  %5 = " +
                        sum_dot("%0, %1") + "\n  %6 = add(%5, %4) : bf16[2,4]\n  output \"y\" = %6\n"),
            with_sum_inputs("  %3 = input() {dtype=\"bf16\", name=\"flat\", shape=[8]} : bf16[8] #batch\n"
                            "  %4 = reshape(%3) {shape=[2,4]} : bf16[2,4]\n  %5 = " +
                            sum_dot("%0, %1, %4") + "\n  output \"y\" = %5\n"));
}

const std::string kNormInputs = R"(  %3 = input() {dtype="bf16", name="w", shape=[4]} : bf16[4] #weight
  %4 = input() {dtype="f32", name="rstd", shape=[2,1]} : f32[2,1] #batch
  %5 = input() {dtype="bf16", name="dy", shape=[2,4]} : bf16[2,4] #batch
)";

std::string norm_grad(const std::string& operands) {
  return "rms_norm_grad(" + operands + ") {eps=0.5} : bf16[2,4], bf16[4] @block00.A";
}

TEST(FoldSumsTest, GradientWithSeveralResultsTakesInWhatIsThere) {
  EXPECT_EQ(
      sums_folded(kNormInputs + "  %6 = cumsum(%2) {dim=0} : bf16[2,4]\n  %7, %8 = " + norm_grad("%2, %3, %4, %5") +
                  "\n  %9 = add(%6, %7) : bf16[2,4]\n  output \"dx\" = %9\n  output \"dw\" = %8\n"),
      with_sum_inputs(kNormInputs + "  %6 = cumsum(%2) {dim=0} : bf16[2,4]\n  %7, %8 = " +
                      norm_grad("%2, %3, %4, %5, %6") + "\n  output \"dx\" = %7\n  output \"dw\" = %8\n"));
}

// Of a row the gradients of what is normalised and of the gain have one type.
TEST(FoldSumsTest, GradientWithSeveralResultsDoesNotTakeInOneOfThem) {
  for (const char* operands : {"%5, %6", "%6, %5"}) {
    const std::string both =
        "  %3 = input() {dtype=\"bf16\", name=\"row\", shape=[4]} : bf16[4] #batch\n"
        "  %4 = input() {dtype=\"f32\", name=\"rstd\", shape=[1]} : f32[1] #batch\n"
        "  %5, %6 = rms_norm_grad(%3, %3, %4, %3) {eps=0.5} : bf16[4], bf16[4] @block00.A\n"
        "  %7 = add(" +
        std::string(operands) + ") : bf16[4]\n  output \"y\" = %7\n";
    EXPECT_EQ(sums_folded(both), with_sum_inputs(both));
  }
}

// Its other result may be read before the sum.
TEST(FoldSumsTest, GradientWithSeveralResultsDoesNotMove) {
  const std::string later = kNormInputs + "  %6, %7 = " + norm_grad("%2, %3, %4, %5") +
                            "\n  %8 = cumsum(%2) {dim=0} : bf16[2,4]\n  %9 = add(%6, %8) : bf16[2,4]\n"
                            "  output \"dx\" = %9\n  output \"dw\" = %7\n";
  EXPECT_EQ(sums_folded(later), with_sum_inputs(later));
}

TEST(FoldSumsTest, WhatAClusterWouldNotStoreStaysInIt) {
  const std::string bias = "  %3 = " + sum_dot("%0, %1") +
                           "\n  %4 = constant() {dtype=\"bf16\", shape=[2,4], value=1.0} : bf16[2,4]\n"
                           "  %5 = add(%3, %4) : bf16[2,4]\n  output \"y\" = %5\n";
  EXPECT_EQ(sums_folded(bias), with_sum_inputs(bias));
  const std::string activation = "  %3 = " + sum_dot("%0, %1") +
                                 "\n  %4 = exp(%2) : bf16[2,4]\n  %5 = add(%3, %4) : bf16[2,4]\n  output \"y\" = %5\n";
  EXPECT_EQ(sums_folded(activation), with_sum_inputs(activation));
}

TEST(FoldSumsTest, ProductWithAnotherReaderOrAnAddendStays) {
  const std::string read = "  %3 = " + sum_dot("%0, %1") +
                           "\n  %4 = add(%3, %2) : bf16[2,4]\n  output \"product\" = %3\n  output \"y\" = %4\n";
  EXPECT_EQ(sums_folded(read), with_sum_inputs(read));
  const std::string full =
      "  %3 = " + sum_dot("%0, %1, %2") + "\n  %4 = add(%3, %2) : bf16[2,4]\n  output \"y\" = %4\n";
  EXPECT_EQ(sums_folded(full), with_sum_inputs(full));
}

TEST(FoldSumsTest, ProductThatIsDoubledStays) {
  const std::string rest = "  %3 = " + sum_dot("%0, %1") + "\n  %4 = add(%3, %3) : bf16[2,4]\n  output \"y\" = %4\n";
  EXPECT_EQ(sums_folded(rest), with_sum_inputs(rest));
}

TEST(FoldSumsTest, WhatTheTargetWouldNotRunStays) {
  const std::string rest = "  %3 = " + sum_dot("%0, %1") + "\n  %4 = add(%3, %2) : bf16[2,4]\n  output \"y\" = %4\n";
  EXPECT_EQ(sums_folded(rest, false), with_sum_inputs(rest));
}

}  // namespace
}  // namespace megacpp::schedule
