// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/fold_accumulation.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kInputs = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[2,3]} : f32[2,3] #batch
  %1 = input() {dtype="f32", name="dy", shape=[2,4]} : f32[2,4] #batch
  %2 = input() {dtype="f32", name="grad", shape=[3,4]} : f32[3,4] #gradient
)";
constexpr const char* kDims = "{lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[3,4] @block00.E";

std::string with_inputs(const std::string& rest) { return kInputs + rest + "}\n"; }

std::string folded(const std::string& rest) { return ir::print(fold_accumulation(ir::parse(with_inputs(rest)))); }

TEST(FoldAccumulationTest, SumOfInputAndProductBecomesOneProduct) {
  const std::string wanted = with_inputs(std::string("  %3 = dot(%0, %1, %2) ") + kDims +
                                         " #gradient\n  output \"grad\" = %3 donates \"grad\"\n");
  for (const char* operands : {"%3, %2", "%2, %3"})
    EXPECT_EQ(folded(std::string("  %3 = dot(%0, %1) ") + kDims + "\n  %4 = add(" + operands +
                     ") : f32[3,4] @block00.E #gradient\n  output \"grad\" = %4 donates \"grad\"\n"),
              wanted);
}

TEST(FoldAccumulationTest, ResultThatTakesNoAddendIsAddedBehind) {
  const std::string rest =
      "  %3 = input() {dtype=\"f32\", name=\"w\", shape=[3]} : f32[3] #weight\n"
      "  %4 = input() {dtype=\"f32\", name=\"rstd\", shape=[2,1]} : f32[2,1] #batch\n"
      "  %5 = input() {dtype=\"f32\", name=\"grad.w\", shape=[3]} : f32[3] #gradient\n"
      "  %6, %7 = rms_norm_grad(%0, %3, %4, %0) {eps=1e-05} : f32[2,3], f32[3]\n"
      "  %8 = add(%5, %7) : f32[3] #gradient\n"
      "  output \"dx\" = %6\n  output \"grad.w\" = %8 donates \"grad.w\"\n";
  EXPECT_EQ(folded(rest), with_inputs(rest));
}

TEST(FoldAccumulationTest, ProductWithAnotherReaderStays) {
  const std::string rest = std::string("  %3 = dot(%0, %1) ") + kDims +
                           "\n  %4 = add(%3, %2) : f32[3,4]\n  %5 = neg(%3) : f32[3,4]\n"
                           "  output \"grad\" = %4\n  output \"other\" = %5\n";
  EXPECT_EQ(folded(rest), with_inputs(rest));
}

TEST(FoldAccumulationTest, ProductThatIsAnOutputStays) {
  const std::string rest = std::string("  %3 = dot(%0, %1) ") + kDims +
                           "\n  %4 = add(%3, %2) : f32[3,4]\n  output \"product\" = %3\n  output \"grad\" = %4\n";
  EXPECT_EQ(folded(rest), with_inputs(rest));
}

TEST(FoldAccumulationTest, SumWithAComputedValueStays) {
  const std::string rest = std::string("  %3 = dot(%0, %1) ") + kDims +
                           "\n  %4 = exp(%2) : f32[3,4]\n  %5 = add(%3, %4) : f32[3,4]\n  output \"y\" = %5\n";
  EXPECT_EQ(folded(rest), with_inputs(rest));
}

}  // namespace
}  // namespace megacpp::schedule
