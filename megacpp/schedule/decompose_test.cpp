// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/decompose.h"

#include <gtest/gtest.h>

#include "megacpp/ir/text.h"
#include "megacpp/ops/evaluator.h"
#include "megacpp/ops/verify.h"
#include "tests/support/tensors.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kNorm = R"(graph "norm" {
  %0 = input() {dtype="f32", name="x", shape=[2,4]} : f32[2,4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] #weight
  %2, %3 = rms_norm(%0, %1) {eps=1e-05} : f32[2,4], f32[2,1] @block00.A #activation
  output "y" = %2
}
)";

Target target_that(base::Decision decision) {
  return {
      .name = "test", .runs = [=](std::string_view, const ops::NodeView&) { return decision; }, .workspace_bytes = {}};
}

TEST(DecomposeTest, CompositeTheTargetRunsStays) {
  const Decomposed result = decompose(ir::parse(kNorm), target_that(base::Decision::yes()));
  EXPECT_EQ(ir::print(result.graph), kNorm);
  EXPECT_TRUE(result.fallbacks.empty());
}

TEST(DecomposeTest, OtherCompositeBecomesPrimitivesAndIsCountedWithItsReason) {
  const ir::Graph graph = ir::parse(kNorm);
  const Decomposed result = decompose(graph, target_that(base::Decision::no("too old")));
  ASSERT_EQ(result.fallbacks.size(), 1U);
  EXPECT_EQ(result.fallbacks[0].op, "rms_norm");
  EXPECT_EQ(result.fallbacks[0].scope, "block00.A");
  EXPECT_EQ(result.fallbacks[0].reason, "too old");
  ops::verify(result.graph, ops::Form::built);
  for (const ir::Node& node : result.graph.nodes()) {
    EXPECT_FALSE(ops::op_def(node.op).is_composite()) << node.op;
    EXPECT_TRUE(node.op == ir::kInputOp || node.scope == "block00.A") << node.op;
  }
  const auto inputs = testing_support::random_inputs(graph, "norm");
  EXPECT_TRUE(testing_support::is_close(ops::evaluate(result.graph, inputs, ops::Rounding::none).at("y"),
                                        ops::evaluate(graph, inputs, ops::Rounding::none).at("y"), 1e-12));
}

}  // namespace
}  // namespace megacpp::schedule
