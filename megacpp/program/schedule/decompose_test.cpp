// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/decompose.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
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

ir::Graph attention_of(int64_t tokens) {
  ir::Graph graph("attention");
  ops::Builder builder(graph);
  const ir::TensorType type{ir::DType::f32, {1, tokens, 1, 4}};
  const ir::ValueId x = builder.input("x", type, ir::Role::batch);
  const std::vector<ir::ValueId> results =
      builder.node("attention", {x, x, x}, {{"causal", int64_t{1}}, {"scale", 0.5}});
  graph.add_output({.name = "y", .value = results[0]});
  return graph;
}

TEST(DecomposeTest, ACompilerOfLoopsGetsTheLoopedForm) {
  Target target = target_that(base::Decision::no("no kernel"));
  target.compiles_loops = true;
  const Decomposed loop = decompose(attention_of(8192), target);
  ASSERT_EQ(loop.graph.nodes().size(), 2U);
  EXPECT_EQ(loop.graph.nodes()[1].op, "blocked_attention");
  EXPECT_EQ(loop.graph.nodes()[1].attrs, attention_of(8192).nodes()[1].attrs);
  EXPECT_TRUE(loop.fallbacks.empty());
  ops::verify(loop.graph, ops::Form::built);
  // Short sequences are taken apart as before, and other targets never get a loop.
  const Decomposed unrolled = decompose(attention_of(256), target);
  EXPECT_GT(unrolled.graph.nodes().size(), 10U);
  EXPECT_EQ(unrolled.fallbacks.size(), 1U);
  target.compiles_loops = false;
  EXPECT_GT(decompose(attention_of(8192), target).graph.nodes().size(), 10U);
  // What was to be one call is a fallback as a loop, too.
  target.compiles_loops = true;
  target.wants_whole = [](std::string_view op) { return op == "attention"; };
  EXPECT_EQ(decompose(attention_of(8192), target).fallbacks.size(), 1U);
}

}  // namespace
}  // namespace megacpp::schedule
