// SPDX-License-Identifier: Apache-2.0
// The mixers with memory along the sequence, built for a sequence stored as several runs, against the same mixer over
// the sequence as it is: outputs, and the gradients of every parameter and of the input.
#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/autodiff/differentiate.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "tests/support/errors.h"
#include "tests/support/model_inputs.h"
#include "tests/support/small_models.h"

namespace megacpp {
namespace {

using Values = std::map<std::string, ops::Tensor>;

constexpr int64_t kRunLength = 4;

struct ChunkCase {
  char letter;
  int64_t runs;
  bool balanced;
  int64_t conv_width;
  int64_t groups = 2;
};

void PrintTo(const ChunkCase& c, std::ostream* out) {
  *out << c.letter << " in " << c.runs << (c.balanced ? " balanced" : " plain") << " runs, conv " << c.conv_width
       << ", groups " << c.groups;
}

struct Mixer {
  ir::Graph graph;
  std::vector<blocks::Parameter> parameters;
};

// The mixer with output y and, for x and each parameter, its gradient under "d" + its name, given the cotangent dy.
Mixer build(const ChunkCase& c, const blocks::Parallel& parallel) {
  const recipe::Model model = testing_support::small_model("mixer", std::string(1, c.letter));
  blocks::Config config = model.families.at(c.letter);
  if (auto* mamba = config.get_if<blocks::Mamba>()) mamba->conv_width = c.conv_width, mamba->groups = c.groups;
  if (auto* recurrent = config.get_if<blocks::Recurrent>()) recurrent->conv_width = c.conv_width;
  const blocks::Dims dims{.batch = 2, .sequence = c.runs * kRunLength, .hidden = model.hidden, .init_std = 0.3};
  const blocks::BlockDef& def = blocks::block_def(c.letter);
  Mixer mixer{.graph = ir::Graph("mixer"), .parameters = def.parameters(dims, config)};
  ops::Builder builder(mixer.graph);
  builder.set_scope("block00." + std::string(1, c.letter));
  const ir::TensorType stream{ir::DType::f32, {dims.batch, dims.sequence, dims.hidden}};
  std::map<std::string, ir::ValueId> weights;
  for (const blocks::Parameter& parameter : mixer.parameters)
    weights[parameter.name] = builder.input(parameter.name, {ir::DType::f32, parameter.shape}, ir::Role::weight);
  std::map<std::string, ir::ValueId> inputs = weights;
  inputs["x"] = builder.input("x", stream, ir::Role::batch);
  const ir::ValueId y = def.build({.builder = builder,
                                   .dims = dims,
                                   .config = config,
                                   .parallel = parallel,
                                   .block = "block00",
                                   .weights = weights},
                                  inputs.at("x"));
  const ir::ValueId dy = builder.input("dy", stream, ir::Role::batch);
  mixer.graph.add_output({.name = "y", .value = y});
  std::vector<ir::ValueId> targets;
  for (const auto& [name, value] : inputs) targets.push_back(value);
  const std::vector<ir::ValueId> gradients = autodiff::differentiate(mixer.graph, {{y, dy}}, targets, {});
  size_t next = 0;
  for (const auto& [name, value] : inputs) mixer.graph.add_output({.name = "d" + name, .value = gradients[next++]});
  ops::verify(mixer.graph, ops::Form::built);
  return mixer;
}

enum class Direction { to_stored, to_time };

// [b, s, ..] with its runs put from time order into the order they are stored in, or back.
ops::Tensor reordered(const ops::Tensor& tensor, const std::vector<int64_t>& time_order, Direction direction) {
  ops::Tensor result = tensor;
  const int64_t runs = static_cast<int64_t>(time_order.size());
  const int64_t run = tensor.elements() / tensor.type.dim(0) / runs;
  for (int64_t b = 0; b < tensor.type.dim(0); ++b)
    for (int64_t j = 0; j < runs; ++j)
      for (int64_t i = 0; i < run; ++i) {
        const int64_t stored = (b * runs + j) * run + i;
        const int64_t in_time = (b * runs + time_order[static_cast<size_t>(j)]) * run + i;
        if (direction == Direction::to_stored)
          result[stored] = tensor[in_time];
        else
          result[in_time] = tensor[stored];
      }
  return result;
}

std::vector<ChunkCase> chunk_cases() {
  std::vector<ChunkCase> cases;
  for (const char letter : {'M', 'R'})
    for (const int64_t runs : {2, 4, 6})
      for (const bool balanced : {false, true})
        for (const int64_t width : {1, 2, 4, 5}) cases.push_back({letter, runs, balanced, width});
  cases.push_back({'M', 4, true, 4, 1});
  cases.push_back({'M', 4, false, 4, 4});
  cases.push_back({'R', 3, false, 4});
  return cases;
}

class SequenceChunksTest : public testing::TestWithParam<ChunkCase> {};
INSTANTIATE_TEST_SUITE_P(Mixers, SequenceChunksTest, testing::ValuesIn(chunk_cases()));

TEST_P(SequenceChunksTest, RunsGiveWhatTheWholeSequenceGives) {
  const ChunkCase& c = GetParam();
  const blocks::Parallel parallel{.sequence_chunks = c.runs, .balanced_order = c.balanced};
  const std::vector<int64_t> order = parallel.time_order(c.runs);
  const Mixer whole = build(c, {}), chunked = build(c, parallel);
  Values inputs = testing_support::model_inputs(whole.graph, whole.parameters, 2);
  const Values wanted = ops::evaluate(whole.graph, inputs, ops::Rounding::none);
  for (const char* name : {"x", "dy"}) inputs.at(name) = reordered(inputs.at(name), order, Direction::to_stored);
  Values got = ops::evaluate(chunked.graph, inputs, ops::Rounding::none);
  for (const char* name : {"y", "dx"}) got.at(name) = reordered(got.at(name), order, Direction::to_time);
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) EXPECT_TRUE(testing_support::is_close(got.at(name), tensor, 1e-10)) << name;
}

TEST(SequenceChunksTest, OneRunIsThePlainMixer) {
  for (const char letter : {'M', 'R'}) {
    const ChunkCase c{letter, 1, true, 4};
    EXPECT_EQ(ir::print(build(c, {.sequence_chunks = 1, .balanced_order = true}).graph), ir::print(build(c, {}).graph));
  }
}

TEST(SequenceChunksTest, ConvolutionsReachOneRunBack) {
  const base::Problem problem = testing_support::problem_of(base::Code::E1005, [] {
    build({'R', 2, false, kRunLength + 2}, {.sequence_chunks = 2});
  });
  EXPECT_EQ(problem.where, "block00.R.conv");
}

}  // namespace
}  // namespace megacpp
