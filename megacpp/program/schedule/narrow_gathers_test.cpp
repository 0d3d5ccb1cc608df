// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/narrow_gathers.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kWeight = R"(graph "g" {
  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
)";

std::string narrowed(const std::string& rest) {
  return ir::print(narrow_gathers(ir::parse(kWeight + rest + "}\n")).graph);
}
std::string with_weight(const std::string& rest) { return kWeight + rest + "}\n"; }

TEST(NarrowGathersTest, AWeightIsNarrowedBeforeItIsGathered) {
  EXPECT_EQ(narrowed(R"(  %1 = reshard(%0) {from="data,-", to="-,-"} : f32[4,2] @block00.E
  %2 = convert(%1) {dtype="bf16"} : bf16[4,2] @block00.E
  %3 = neg(%2) : bf16[4,2]
  output "y" = %3
)"),
            with_weight(R"(  %1 = convert(%0) {dtype="bf16"} : bf16[4,2] @block00.E
  %2 = reshard(%1) {from="data,-", to="-,-"} : bf16[4,2] @block00.E
  %3 = neg(%2) : bf16[4,2]
  output "y" = %3
)"));
}

TEST(NarrowGathersTest, TheGatheredCopyIsKeptWhereItsConvertWas) {
  EXPECT_EQ(narrowed(R"(  %1 = reshard(%0) {from="data,-", to="-,-"} : f32[4,2]
  %2 = convert(%1) {dtype="bf16"} : bf16[4,2] #activation
  %3 = neg(%2) : bf16[4,2]
  output "y" = %3
)"),
            with_weight(R"(  %1 = convert(%0) {dtype="bf16"} : bf16[4,2]
  %2 = reshard(%1) {from="data,-", to="-,-"} : bf16[4,2] #activation
  %3 = neg(%2) : bf16[4,2]
  output "y" = %3
)"));
}

TEST(NarrowGathersTest, InTwoStepsAndForTwoReaders) {
  EXPECT_EQ(narrowed(R"(  %1 = reshard(%0) {from="data,-", to="node,-"} : f32[4,2]
  %2 = reshard(%1) {from="node,-", to="-,-"} : f32[4,2]
  %3 = convert(%2) {dtype="bf16"} : bf16[4,2]
  %4 = convert(%2) {dtype="bf16"} : bf16[4,2]
  %5 = add(%3, %4) : bf16[4,2]
  output "y" = %5
)"),
            with_weight(R"(  %1 = convert(%0) {dtype="bf16"} : bf16[4,2]
  %2 = reshard(%1) {from="data,-", to="node,-"} : bf16[4,2]
  %3 = reshard(%2) {from="node,-", to="-,-"} : bf16[4,2]
  %4 = add(%3, %3) : bf16[4,2]
  output "y" = %4
)"));
}

TEST(NarrowGathersTest, WhatIsReadInF32StaysWide) {
  const std::string both = R"(  %1 = reshard(%0) {from="data,-", to="-,-"} : f32[4,2]
  %2 = convert(%1) {dtype="bf16"} : bf16[4,2]
  %3 = neg(%1) : f32[4,2]
  output "y" = %2
  output "z" = %3
)";
  EXPECT_EQ(narrowed(both), with_weight(both));
  const std::string output = R"(  %1 = reshard(%0) {from="data,-", to="-,-"} : f32[4,2]
  %2 = convert(%1) {dtype="bf16"} : bf16[4,2]
  output "y" = %1
  output "z" = %2
)";
  EXPECT_EQ(narrowed(output), with_weight(output));
}

// A sum over chips may end in the reshard of what is no weight: it must not lose bits first.
TEST(NarrowGathersTest, OtherTensorsStayWide) {
  const std::string computed = R"(  %1 = neg(%0) : f32[4,2]
  %2 = reshard(%1) {from="data,-", to="-,-"} : f32[4,2]
  %3 = convert(%2) {dtype="bf16"} : bf16[4,2]
  output "y" = %3
)";
  EXPECT_EQ(narrowed(computed), with_weight(computed));
}

TEST(NarrowGathersTest, SaysWhereTheBackwardPassBeginsNow) {
  const ir::Graph graph = ir::parse(with_weight(R"(  %1 = reshard(%0) {from="data,-", to="-,-"} : f32[4,2]
  %2 = convert(%1) {dtype="bf16"} : bf16[4,2]
  %3 = convert(%1) {dtype="bf16"} : bf16[4,2]
  %4 = add(%2, %3) : bf16[4,2]
  %5 = neg(%4) : bf16[4,2]
  output "y" = %5
)"));
  EXPECT_EQ(narrow_gathers(graph, 5).forward_nodes, 4u);
  EXPECT_EQ(narrow_gathers(graph, 6).forward_nodes, 5u);
}

}  // namespace
}  // namespace megacpp::schedule
