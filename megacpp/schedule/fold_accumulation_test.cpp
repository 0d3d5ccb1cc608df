// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/fold_accumulation.h"

#include <gtest/gtest.h>

#include "megacpp/ir/text.h"

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
