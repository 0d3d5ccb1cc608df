// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/mix_products.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kRouterInputs = R"(graph "g" {
  %0 = input() {dtype="bf16", name="x", shape=[4,16]} : bf16[4,16] #batch
  %1 = input() {dtype="f32", name="w", shape=[16,2]} : f32[16,2] #weight
  %2 = input() {dtype="f32", name="dy", shape=[4,2]} : f32[4,2] #batch
)";
constexpr const char* kRouterConvert = "  %3 = convert(%0) {dtype=\"f32\"} : f32[4,16]\n";
constexpr const char* kLogitDims = " {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[4,2] @E\n";
constexpr const char* kWeightDims = " {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[16,2]\n";

Target target_with_mixed(bool runs_mixed) {
  return {.name = "test",
          .runs =
              [runs_mixed](std::string_view op, const ops::NodeView&) {
                return runs_mixed || op != "mixed_dot" ? base::Decision::yes() : base::Decision::no("it has no kernel");
              },
          .workspace_bytes = {}};
}

std::string with_router_inputs(const std::string& rest) { return kRouterInputs + rest + "}\n"; }

std::string products_mixed(const std::string& rest, bool runs_mixed = true) {
  return ir::print(mix_products(ir::parse(with_router_inputs(rest)), target_with_mixed(runs_mixed)));
}

std::string router_products(const std::string& outputs) {
  return std::string(kRouterConvert) + "  %4 = dot(%3, %1)" + kLogitDims + "  %5 = dot(%3, %2)" + kWeightDims + outputs;
}

TEST(MixProductsTest, ProductsReadBf16AndTheConversionGoes) {
  EXPECT_EQ(products_mixed(router_products("  output \"y\" = %4\n  output \"dw\" = %5\n")),
            with_router_inputs(std::string("  %3 = mixed_dot(%0, %1)") + kLogitDims + "  %4 = mixed_dot(%0, %2)" +
                               kWeightDims + "  output \"y\" = %3\n  output \"dw\" = %4\n"));
}

TEST(MixProductsTest, AConversionThatIsReadOtherwiseStays) {
  const std::string outputs = "  output \"y\" = %4\n  output \"dw\" = %5\n  output \"wide\" = %3\n";
  EXPECT_EQ(products_mixed(router_products(outputs)),
            with_router_inputs(std::string(kRouterConvert) + "  %4 = mixed_dot(%0, %1)" + kLogitDims +
                               "  %5 = mixed_dot(%0, %2)" + kWeightDims + outputs));
}

TEST(MixProductsTest, WhatTheTargetWouldNotRunStays) {
  const std::string rest = router_products("  output \"y\" = %4\n  output \"dw\" = %5\n");
  EXPECT_EQ(products_mixed(rest, false), with_router_inputs(rest));
}

TEST(MixProductsTest, AWideRightSideStays) {
  const std::string rest =
      std::string(kRouterConvert) +
      "  %4 = dot(%1, %3) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[1]} : f32[2,4]\n"
      "  output \"y\" = %4\n";
  EXPECT_EQ(products_mixed(rest), with_router_inputs(rest));
}

}  // namespace
}  // namespace megacpp::schedule
