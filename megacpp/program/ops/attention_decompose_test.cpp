// SPDX-License-Identifier: Apache-2.0
// The op table's samples are shorter than a block of queries; these are longer, with a block that is not full.
#include "megacpp/program/ops/attention_decompose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/sample_values.h"

namespace megacpp::ops {
namespace {

constexpr int64_t kLength = 2 * kSmallestQueryBlock + 44;

const ir::Attrs kCausalMask = {{"causal", int64_t{1}}, {"scale", 0.7}};
const ir::Attrs kWindow = {{"causal", int64_t{1}}, {"window", int64_t{70}}, {"scale", 0.7}};
const ir::Attrs kSparse = {{"causal", int64_t{1}},
                           {"sparse_block", int64_t{32}},
                           {"sparse_global", int64_t{1}},
                           {"sparse_local", int64_t{2}},
                           {"scale", 0.7}};

AttentionDims dims_of(int64_t length) {
  return AttentionDims({ir::DType::f32, {1, length, 2, 4}}, {ir::DType::f32, {1, length, 1, 4}});
}

TEST(AttentionDecomposeTest, BlocksSeeOnlyTheKeysTheirQueriesSee) {
  const auto blocks = query_blocks(dims_of(kLength), AttentionMask::from(kCausalMask), false);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[1].first, kSmallestQueryBlock);
  EXPECT_EQ(blocks[1].keys.end, 2 * kSmallestQueryBlock);
  EXPECT_EQ(blocks[2].size, 44);
  const auto windowed = query_blocks(dims_of(kLength), AttentionMask::from(kWindow), false);
  EXPECT_EQ(windowed[2].keys.begin, kSmallestQueryBlock);
  const auto placed = query_blocks(dims_of(kLength), AttentionMask::from(kCausalMask), true);
  EXPECT_EQ(placed[0].keys.end, kLength);
}

TEST(AttentionDecomposeTest, LongSequencesHaveBlocksOfBoundedSize) {
  for (const int64_t length : {4096, 32768})
    for (const QueryBlock& block : query_blocks(dims_of(length), AttentionMask::from(kCausalMask), false))
      EXPECT_LE(block.size, kLargestQueryBlock);
}

/// Of inputs "x0", "x1", .. and outputs "0", "1", ..
ir::Graph decomposed(const OpDef& op, const Types& types, const ir::Attrs& attrs) {
  ir::Graph graph("long");
  Builder builder(graph);
  std::vector<ValueId> ids;
  for (const ir::TensorType& type : types)
    ids.push_back(builder.input("x" + std::to_string(ids.size()), type, ir::Role::activation));
  const std::vector<ValueId> results = op.decompose(builder, ids, attrs);
  for (size_t i = 0; i < results.size(); ++i) graph.add_output({.name = std::to_string(i), .value = results[i]});
  return graph;
}

// The op's decomposition against its reference, on values of its own.
void expect_decomposition_equals_reference(std::string_view name, const Types& types, const ir::Attrs& attrs) {
  const OpDef& op = op_def(name);
  const Sample sample{.name = "long", .operands = types, .attrs = attrs};
  const std::vector<Tensor> operands = sample_operands(op, sample);
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs["x" + std::to_string(i)] = operands[i];
  const auto got = evaluate(decomposed(op, types, attrs), inputs, Rounding::none);
  const auto wanted = evaluate_op(name, operands, attrs, Rounding::none);
  for (size_t r = 0; r < wanted.size(); ++r)
    for (int64_t i = 0; i < wanted[r].elements(); ++i)
      ASSERT_NEAR(got.at(std::to_string(r))[i], wanted[r][i], 1e-9 * (1 + std::abs(wanted[r][i])))
          << "result " << r << ", element " << i;
}

TEST(AttentionDecomposeTest, SeveralBlocksEqualTheReference) {
  const ir::TensorType q{ir::DType::f32, {1, kLength, 2, 4}}, k{ir::DType::f32, {1, kLength, 1, 4}};
  const ir::TensorType lse{ir::DType::f32, {1, 2, kLength}};
  for (const ir::Attrs& attrs : {kCausalMask, kWindow, kSparse}) {
    expect_decomposition_equals_reference("attention", {q, k, k}, attrs);
    expect_decomposition_equals_reference("attention_grad", {q, k, k, q, lse, q}, attrs);
  }
}

// Of all tensors of the decomposition the scores of one block are the largest.
TEST(AttentionDecomposeTest, TemporariesHaveTheScoresOfTheLargestBlock) {
  const ir::TensorType q{ir::DType::bf16, {1, kLength, 2, 4}}, k{ir::DType::bf16, {1, kLength, 1, 4}};
  const ir::TensorType lse{ir::DType::f32, {1, 2, kLength}};
  for (const ir::Attrs& attrs : {kCausalMask, kWindow, kSparse})
    for (const char* name : {"attention", "attention_grad"}) {
      const OpDef& op = op_def(name);
      const Types types = op.name == "attention" ? Types{q, k, k} : Types{q, k, k, q, lse, q};
      const ir::Graph graph = decomposed(op, types, attrs);
      int64_t largest = 0;
      for (const ir::Node& node : graph.nodes())
        for (const ir::TensorType& type : graph.result_types(node)) largest = std::max(largest, type.elements());
      const Types results = op.infer(types, attrs);
      const Types temporaries = op.temporaries({types, results, attrs});
      EXPECT_EQ(temporaries[0].elements(), largest) << name;
      EXPECT_EQ(temporaries[0].dtype, ir::DType::f32);
    }
}

// As the decomposition has them, where half of a block on the diagonal is hidden, or all but a window.
TEST(AttentionDecomposeTest, ScoresOfAllBlocksCountHiddenOnesToo) {
  const ir::TensorType q{ir::DType::bf16, {3, kLength, 2, 4}}, k{ir::DType::bf16, {3, kLength, 1, 4}};
  const Types types = {q, k, k};
  for (const ir::Attrs& attrs : {kCausalMask, kWindow, kSparse}) {
    const OpDef& op = op_def("attention");
    const ir::Graph graph = decomposed(op, types, attrs);
    int64_t scores = 0;
    for (const ir::Node& node : graph.nodes())
      if (node.op == "exp") scores += graph.type(node.results[0]).elements();
    const Types results = op.infer(types, attrs);
    EXPECT_EQ(scores_of_all_blocks({types, results, attrs}), scores);
    EXPECT_GT(static_cast<double>(scores), op.cost({types, results, attrs}).exponentials);
  }
}

}  // namespace
}  // namespace megacpp::ops
