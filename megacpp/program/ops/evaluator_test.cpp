// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/evaluator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Role;

Tensor tensor(ir::Shape shape, std::vector<double> data, DType dtype = DType::f32) {
  return {.type = {dtype, std::move(shape)}, .data = std::move(data)};
}

TEST(EvaluatorTest, RoundsToWhatTheDtypeHolds) {
  EXPECT_EQ(ir::rounded(DType::f32, 0.1), static_cast<double>(0.1F));
  EXPECT_EQ(ir::rounded(DType::bf16, 1.001), 1.0);
  EXPECT_EQ(ir::rounded(DType::i32, -2.7), -2.0);
  EXPECT_EQ(ir::rounded(DType::pred, 0.3), 1.0);
  EXPECT_EQ(ir::rounded(DType::pred, 0.0), 0.0);
}

TEST(EvaluatorTest, OneOpRoundsOnlyWhenAsked) {
  const std::vector<Tensor> x = {tensor({1}, {0.1})};
  EXPECT_EQ(evaluate_op("exp", x, {})[0][0], static_cast<double>(static_cast<float>(std::exp(0.1))));
  EXPECT_EQ(evaluate_op("exp", x, {}, Rounding::none)[0][0], std::exp(0.1));
}

TEST(EvaluatorTest, RunsAGraphFromInputsToOutputs) {
  ir::Graph graph("g");
  Builder b(graph);
  const ValueId x = b.input("x", {DType::f32, {2, 3}}, Role::batch);
  const ValueId w = b.input("w", {DType::f32, {3, 1}}, Role::weight);
  const ValueId y = b.matmul(x, w);
  graph.add_output({.name = "y", .value = y});
  graph.add_output({.name = "loss", .value = b.sum_all(b.square(y))});
  graph.add_output({.name = "x", .value = x});
  const auto out = evaluate(graph, {{"x", tensor({2, 3}, {1, 2, 3, 4, 5, 6})}, {"w", tensor({3, 1}, {1, 0, -1})}});
  EXPECT_EQ(out.at("y").data, (std::vector<double>{-2, -2}));
  EXPECT_EQ(out.at("loss").data, (std::vector<double>{8}));
  EXPECT_EQ(out.at("x").data, (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(EvaluatorTest, MissingInputIsNamed) {
  ir::Graph graph("g");
  Builder(graph).input("tokens", {DType::i32, {2}}, Role::batch);
  try {
    evaluate(graph, {});
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_NE(error.problem().got.find("tokens"), std::string::npos);
  }
}

TEST(EvaluatorTest, IndicesRunInRowMajorOrder) {
  std::vector<int64_t> seen;
  for_each_index({2, 3}, [&](const ir::Shape& index) { seen.push_back(flat_index(index, {2, 3})); });
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  int calls = 0;
  for_each_index({}, [&](const ir::Shape&) { ++calls; });
  for_each_index({4, 0}, [&](const ir::Shape&) { calls += 100; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace megacpp::ops
