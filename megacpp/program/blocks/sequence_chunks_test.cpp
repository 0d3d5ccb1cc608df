// SPDX-License-Identifier: Apache-2.0
// Convolutions over sequences that are stored as several runs, by the reference evaluator.
#include "megacpp/program/blocks/sequence_chunks.h"

#include <gtest/gtest.h>

#include "megacpp/program/ops/evaluator.h"
#include "tests/support/errors.h"

namespace megacpp::blocks {
namespace {

using ops::Tensor;

constexpr int64_t kLength = 12, kChannels = 2, kWidth = 4;

/// The graph "conv" of one convolution, in so many runs.
ir::Graph convolution(int64_t runs) {
  const Dims dims{.batch = 1, .sequence = kLength};
  const Parallel parallel{.sequence_chunks = runs};
  const Config config;
  ir::Graph graph("conv");
  ops::Builder b(graph);
  const std::map<std::string, ValueId> weights = {
      {"conv.weight", b.input("w", {ir::DType::f32, {kChannels, kWidth}}, ir::Role::weight)}};
  const BuildContext context{.builder = b, .dims = dims, .config = config, .parallel = parallel, .weights = weights};
  const ValueId x = b.input("x", {ir::DType::f32, {1, kLength, kChannels}}, ir::Role::activation);
  graph.add_output({.name = "y", .value = convolve(context, {{x, "conv.weight"}})[0]});
  return graph;
}

Tensor counted(const ir::Shape& shape, double step) {
  Tensor tensor = Tensor::zeros({ir::DType::f32, shape});
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor[i] = 1 + step * static_cast<double>(i);
  return tensor;
}

TEST(SequenceChunksTest, AConvolutionOverRunsIsThatOverTheSequence) {
  const std::map<std::string, Tensor> inputs = {{"x", counted({1, kLength, kChannels}, 0.5)},
                                                {"w", counted({kChannels, kWidth}, 0.25)}};
  const Tensor wanted = ops::evaluate(convolution(1), inputs, ops::Rounding::none).at("y");
  for (const int64_t runs : {2, 3, 4}) {
    const Tensor got = ops::evaluate(convolution(runs), inputs, ops::Rounding::none).at("y");
    ASSERT_EQ(got.elements(), wanted.elements());
    for (int64_t i = 0; i < wanted.elements(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << runs << " runs, " << i;
  }
}

TEST(SequenceChunksTest, OnlyTheTokensThatItLooksBackToTravel) {
  const ir::Graph graph = convolution(3);
  size_t shifts = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != "shift_runs") continue;
    ++shifts;
    EXPECT_EQ(graph.type(node.operands.at(0)).shape, (ir::Shape{1, 3, kWidth - 1, kChannels}));
  }
  EXPECT_EQ(shifts, 1u);
}

TEST(SequenceChunksTest, RunsAreAtLeastAsLongAsItLooksBack) {
  EXPECT_NO_THROW(convolution(kLength / (kWidth - 1)));
  EXPECT_EQ(testing_support::problem_of(base::Code::E1005, [] { convolution(kLength / (kWidth - 2)); }).got,
            "runs of 2 tokens");
}

}  // namespace
}  // namespace megacpp::blocks
