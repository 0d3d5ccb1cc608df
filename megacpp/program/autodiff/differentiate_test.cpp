// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/autodiff/differentiate.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/verify.h"
#include "tests/support/errors.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace megacpp::autodiff {
namespace {

using ir::ValueId;
using ops::Rounding;
using ops::Tensor;
using testing_support::is_close;
using Inputs = std::map<std::string, Tensor>;

constexpr ir::DType kF32 = ir::DType::f32;

std::vector<ValueId> input_values(const ir::Graph& graph) {
  std::vector<ValueId> values;
  for (const ir::NodeId id : graph.inputs()) values.push_back(graph.node(id).results[0]);
  return values;
}

// Appends gradients of `loss` for every input: outputs "grad.<input>".
void add_gradients(ir::Graph& graph, ValueId loss, const Options& options = {}) {
  ops::Builder builder(graph);
  const std::vector<ValueId> targets = input_values(graph);
  const ValueId one = builder.constant(1.0);
  const std::vector<ValueId> gradients = differentiate(graph, {{loss, one}}, targets, options);
  for (size_t i = 0; i < targets.size(); ++i)
    graph.add_output({.name = "grad." + graph.producer(targets[i]).attrs.text("name"), .value = gradients[i]});
  graph.add_output({.name = "loss", .value = loss});
}

// Looks at some thirty elements of every input.
void expect_finite_differences(const ir::Graph& graph, Inputs inputs) {
  const auto got = ops::evaluate(graph, inputs, Rounding::none);
  constexpr double kStep = 1e-6;
  for (auto& [name, tensor] : inputs) {
    Tensor wanted = got.at("grad." + name);
    const int64_t stride = 1 + tensor.elements() / 30;
    for (int64_t e = 0; e < tensor.elements(); e += stride) {
      const double saved = tensor[e];
      tensor[e] = saved + kStep;
      const double up = ops::evaluate(graph, inputs, Rounding::none).at("loss")[0];
      tensor[e] = saved - kStep;
      const double down = ops::evaluate(graph, inputs, Rounding::none).at("loss")[0];
      tensor[e] = saved;
      wanted[e] = (up - down) / (2 * kStep);
    }
    ASSERT_TRUE(is_close(got.at("grad." + name), wanted, 1e-4)) << name << "\n" << ir::print(graph);
  }
}

TEST(DifferentiateTest, RandomGraphsEqualFiniteDifferences) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph source = testing_support::random_graph(seed, 5 + static_cast<int>(seed % 20));
    ir::Graph graph("loss");
    ops::Builder builder(graph);
    for (const ir::Node& node : source.nodes()) graph.append(node, source.result_types(node));  // the same numbering
    ValueId loss = builder.constant(0.0);
    for (const ir::Output& output : source.outputs())
      loss = builder.add(loss, builder.sum_all(builder.tanh(output.value)));
    add_gradients(graph, loss);
    ops::verify(graph, ops::Form::built);
    expect_finite_differences(graph, testing_support::random_inputs(graph, "seed" + std::to_string(seed)));
    if (HasFatalFailure()) return;
  }
}

TEST(DifferentiateTest, ValueUsedTwiceAccumulates) {
  ir::Graph graph("g");
  ops::Builder b(graph);
  const ValueId x = b.input("x", {kF32, {3}}, ir::Role::weight);
  const ValueId loss = b.sum_all(b.add(b.mul(x, x), b.scale(x, 3.0)));
  add_gradients(graph, loss);
  Tensor values = Tensor::zeros({kF32, {3}});
  values.data = {1, -2, 0.5};
  const auto got = ops::evaluate(graph, {{"x", values}});
  EXPECT_EQ(got.at("grad.x").data, (std::vector<double>{5, -1, 4}));
}

TEST(DifferentiateTest, UnusedTargetGetsZeros) {
  ir::Graph graph("g");
  ops::Builder b(graph);
  const ValueId x = b.input("x", {kF32, {2}}, ir::Role::weight);
  b.input("unused", {ir::DType::bf16, {2, 2}}, ir::Role::weight);
  add_gradients(graph, b.sum_all(x));
  ops::verify(graph, ops::Form::built);
  EXPECT_EQ(graph.type(*graph.find_output("grad.unused")).dtype, ir::DType::bf16);
  const auto got = ops::evaluate(graph, {{"x", testing_support::random_tensor({kF32, {2}}, "x")},
                                         {"unused", Tensor::zeros({ir::DType::bf16, {2, 2}})}});
  EXPECT_EQ(got.at("grad.unused").data, std::vector<double>(4, 0.0));
  EXPECT_EQ(got.at("grad.x").data, std::vector<double>(2, 1.0));
}

TEST(DifferentiateTest, TargetMayBeAValueInTheMiddle) {
  ir::Graph graph("g");
  ops::Builder b(graph);
  const ValueId x = b.input("x", {kF32, {}}, ir::Role::weight);
  const ValueId y = b.scale(x, 2.0);
  const ValueId loss = b.square(y);
  const std::vector<ValueId> gradients = differentiate(graph, {{loss, b.constant(1.0)}}, {y, x}, {});
  graph.add_output({.name = "dy", .value = gradients[0]});
  graph.add_output({.name = "dx", .value = gradients[1]});
  const auto got = ops::evaluate(graph, {{"x", Tensor{{kF32, {}}, {3}}}});
  EXPECT_EQ(got.at("dy")[0], 12.0);
  EXPECT_EQ(got.at("dx")[0], 24.0);
}

TEST(DifferentiateTest, NothingIsBuiltForOperandsThatAreNoTargets) {
  ir::Graph graph("g");
  ops::Builder b(graph);
  const ValueId x = b.input("x", {kF32, {2, 3}}, ir::Role::batch);
  const ValueId w = b.input("w", {kF32, {3, 4}}, ir::Role::weight);
  const ValueId loss = b.sum_all(b.matmul(x, w));
  const size_t before = graph.nodes().size();
  const std::vector<ValueId> gradients = differentiate(graph, {{loss, b.constant(1.0)}}, {w}, {});
  size_t products = 0;
  for (size_t n = before; n < graph.nodes().size(); ++n) products += graph.nodes()[n].op == "dot" ? 1 : 0;
  EXPECT_EQ(products, 1U) << ir::print(graph);
  EXPECT_EQ(graph.type(gradients[0]), graph.type(w));
}

// Three residual blocks of a norm and a two-layer perceptron.
struct Stack {
  ir::Graph graph{"stack"};
  ValueId loss;
};

Stack make_stack() {
  Stack stack;
  ops::Builder b(stack.graph);
  ValueId x = b.input("x", {kF32, {2, 24}}, ir::Role::batch);
  for (int i = 0; i < 3; ++i) {
    b.set_scope("block0" + std::to_string(i) + ".E");
    const std::string name = "block" + std::to_string(i);
    const ValueId scale = b.input(name + ".norm", {kF32, {24}}, ir::Role::weight);
    const ValueId up = b.input(name + ".up", {kF32, {24, 48}}, ir::Role::weight);
    const ValueId down = b.input(name + ".down", {kF32, {48, 24}}, ir::Role::weight);
    const ValueId normed = b.node("rms_norm", {x, scale}, {{"eps", 1e-5}})[0];
    x = b.add(x, b.matmul(b.silu(b.matmul(normed, up)), down));
  }
  b.set_scope("loss");
  stack.loss = b.sum_all(b.square(x));
  return stack;
}

int64_t activation_bytes(const ir::Graph& graph) {
  int64_t bytes = 0;
  for (const ir::Node& node : graph.nodes())
    if (node.role == ir::Role::activation)
      for (const ir::ValueId result : node.results) bytes += graph.type(result).bytes();
  return bytes;
}

struct Differentiated {
  std::map<std::string, Tensor> outputs;
  int64_t kept_bytes;
  size_t nodes;
};

Differentiated differentiated(Recompute policy) {
  Stack stack = make_stack();
  const Inputs inputs = testing_support::random_inputs(stack.graph, "stack");
  add_gradients(stack.graph, stack.loss, {.recompute = {{"E", policy}}});
  ops::verify(stack.graph, ops::Form::built);
  return {ops::evaluate(stack.graph, inputs, Rounding::none), activation_bytes(stack.graph),
          stack.graph.nodes().size()};
}

TEST(DifferentiateTest, RecomputeChangesBytesAndNeverGradients) {
  const Differentiated none = differentiated(Recompute::none);
  const Differentiated selective = differentiated(Recompute::selective);
  const Differentiated full = differentiated(Recompute::full);
  for (const auto& [name, tensor] : none.outputs) {
    EXPECT_TRUE(is_close(selective.outputs.at(name), tensor, 0.0)) << name;
    EXPECT_TRUE(is_close(full.outputs.at(name), tensor, 0.0)) << name;
  }
  EXPECT_LT(selective.kept_bytes, none.kept_bytes);
  EXPECT_LT(full.kept_bytes, selective.kept_bytes);
  EXPECT_GT(full.nodes, none.nodes);
}

// A weight that is gathered again for the backward pass is narrowed again too: kept, the narrow copy would undo it.
TEST(DifferentiateTest, WhatIsMadeAgainIsNotKeptConverted) {
  for (const bool recomputed : {false, true}) {
    ir::Graph graph("gathered");
    ops::Builder b(graph);
    const ir::DType bf16 = ir::DType::bf16;
    const ValueId x = b.input("x", {bf16, {2, 4}}, ir::Role::batch), w = b.input("w", {kF32, {4, 4}}, ir::Role::weight);
    ir::Attrs attrs = {{"from", "data,-"}, {"to", "-,-"}};
    if (recomputed) attrs.set("recomputed", int64_t{1});
    const ValueId narrow = b.convert(b.one("reshard", {w}, std::move(attrs)), bf16);
    const ValueId y = b.matmul(b.silu(b.matmul(x, narrow)), narrow);
    add_gradients(graph, b.sum_all(b.convert(y, kF32)));
    const auto converts = std::ranges::count_if(graph.nodes(), [&](const ir::Node& node) {
      return node.op == "convert" && graph.type(node.results[0]) == ir::TensorType{bf16, {4, 4}};
    });
    EXPECT_EQ(converts, recomputed ? 2 : 1);
    EXPECT_EQ(graph.producer(narrow).role, recomputed ? ir::Role::temporary : ir::Role::activation);
  }
}

TEST(DifferentiateTest, StackEqualsFiniteDifferences) {
  Stack stack = make_stack();
  const Inputs inputs = testing_support::random_inputs(stack.graph, "stack");
  add_gradients(stack.graph, stack.loss);
  expect_finite_differences(stack.graph, inputs);
}

// The rule would answer with nothing, which means zero.
TEST(DifferentiateTest, AGradientThroughAConstantOperandIsOurDefect) {
  ir::Graph graph("rotated");
  ops::Builder b(graph);
  const ValueId x = b.input("x", {kF32, {1, 2, 1, 4}}, ir::Role::activation);
  const ValueId cos = b.input("cos", {kF32, {2, 2}}, ir::Role::weight);
  const ValueId sin = b.input("sin", {kF32, {2, 2}}, ir::Role::batch);
  const ValueId loss = b.reduce_sum(b.one("rope", {x, cos, sin}), {0, 1, 2, 3});
  const ValueId one = b.constant(1.0);
  EXPECT_NO_THROW(differentiate(graph, {{loss, one}}, {x}, {}));
  const base::Problem problem = testing_support::problem_of(base::Code::E9001, [&] {
    differentiate(graph, {{loss, one}}, {x, cos}, {});
  });
  for (const char* part : {"operand 1 of rope", "cosines of positions"})
    EXPECT_NE((problem.where + problem.got).find(part), std::string::npos) << problem.where << "\n" << problem.got;
}

}  // namespace
}  // namespace megacpp::autodiff
