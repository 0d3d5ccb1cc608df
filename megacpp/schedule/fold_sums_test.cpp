// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/fold_sums.h"

#include <gtest/gtest.h>

#include "megacpp/ir/text.h"

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
