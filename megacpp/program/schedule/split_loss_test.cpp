// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/split_loss.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/order.h"
#include "tests/support/tensors.h"

namespace megacpp::schedule {
namespace {

using ir::DType;
using ops::ValueId;

// A head with its loss and gradients, and what one test or another adds to it.
struct Head {
  ir::Graph graph = ir::Graph("head");
  ops::Builder b = ops::Builder(graph);
  ValueId hidden, weight, labels, logits, losses, gradient, hidden_gradient, weight_gradient;

  // hidden: [rows.., hidden size]
  explicit Head(ir::Shape shape, int64_t vocab) {
    const auto size = static_cast<int64_t>(shape.size()) - 1;
    const int64_t width = shape.back();
    const ir::Shape rows(shape.begin(), shape.end() - 1);
    ops::Builder::DotDims over_rows;
    for (int64_t d = 0; d < size; ++d) {
      over_rows.lhs_contract.push_back(d);
      over_rows.rhs_contract.push_back(d);
    }
    hidden = b.input("hidden", {DType::f32, std::move(shape)}, ir::Role::batch);
    weight = b.input("weight", {DType::f32, {width, vocab}}, ir::Role::weight);
    labels = b.input("labels", {DType::i32, rows}, ir::Role::batch);
    logits = b.matmul(hidden, weight);
    const std::vector<ValueId> entropy = b.node("cross_entropy", {logits, labels});
    losses = entropy[0];
    const ValueId mean = b.scale(b.sum_all(losses), 0.25);
    const ValueId cotangent = b.constant(0.25, rows);
    const ValueId zero = b.constant(0.0, rows);
    gradient = b.one("cross_entropy_grad", {logits, labels, entropy[1], cotangent, zero});
    hidden_gradient = b.dot(gradient, weight, {.lhs_contract = {size}, .rhs_contract = {1}});
    weight_gradient = b.dot(hidden, gradient, over_rows);
    graph.add_output({.name = "loss", .value = mean});
    graph.add_output({.name = "hidden", .value = hidden_gradient});
    graph.add_output({.name = "weight", .value = weight_gradient});
  }
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  bool stays_whole() const { return ir::print(split_loss(graph, 1)) == ir::print(graph); }
};

int64_t count_parts(const ir::Graph& graph) {
  return std::ranges::count(graph.nodes(), "cross_entropy", &ir::Node::op);
}

struct PartsRow {
  ir::Shape hidden;
  int64_t full_rate_rows;
  int64_t parts;
};

TEST(SplitLossTest, PartsAreEqualHaveEnoughRowsAndComputeTheSame) {
  for (const PartsRow& row : std::vector<PartsRow>{{{8, 4, 3}, 1, 8},
                                                   {{8, 4, 3}, 5, 4},
                                                   {{8, 4, 3}, 16, 2},
                                                   {{8, 4, 3}, 17, 1},
                                                   {{6, 4, 3}, 5, 3},
                                                   {{7, 4, 3}, 5, 1},
                                                   {{1, 12, 3}, 4, 3},
                                                   {{12, 3}, 6, 2},
                                                   {{1, 1, 3}, 1, 1},
                                                   {{2, 2, 2, 3}, 1, 2}}) {
    SCOPED_TRACE(ir::to_string(row.hidden) + " " + std::to_string(row.full_rate_rows));
    const Head head(row.hidden, 5);
    const ir::Graph after = split_loss(head.graph, row.full_rate_rows);
    ops::verify(after, ops::Form::built);
    EXPECT_EQ(count_parts(after), row.parts);
    const auto inputs = testing_support::random_inputs(head.graph, "split_loss");
    const auto got = ops::evaluate(after, inputs, ops::Rounding::none);
    for (const auto& [name, tensor] : ops::evaluate(head.graph, inputs, ops::Rounding::none))
      EXPECT_TRUE(testing_support::is_close(got.at(name), tensor, 1e-12)) << name << "\n" << ir::print(after);
  }
}

TEST(SplitLossTest, LogitsOfOnePartAreAliveAtOnce) {
  const Head head({8, 16, 4}, 512);
  const int64_t whole = 2 * head.graph.type(head.logits).bytes();  // and their gradient
  for (const int64_t parts : {2, 4, 8}) {
    const ir::Graph after = order_for_low_peak(lower_elementwise(fuse(split_loss(head.graph, 8 * 16 / parts))));
    EXPECT_EQ(count_parts(after), parts);
    EXPECT_LT(simulated_peak(after), whole / parts + whole / 8) << ir::print(after);
  }
}

TEST(SplitLossTest, LossWhoseGradientHasAnotherReaderStaysWhole) {
  Head kept({4, 2, 3}, 5);
  kept.graph.add_output({.name = "gradient", .value = kept.gradient});
  EXPECT_TRUE(kept.stays_whole());
  Head read({4, 2, 3}, 5);
  read.graph.add_output({.name = "sum", .value = read.b.sum_all(read.gradient)});
  EXPECT_TRUE(read.stays_whole());
  Head right({4, 2, 3}, 5);  // rows are the last dimensions of what this product leaves
  const ValueId product = right.b.dot(right.weight, right.gradient, {.lhs_contract = {1}, .rhs_contract = {2}});
  right.graph.add_output({.name = "product", .value = product});
  EXPECT_TRUE(right.stays_whole());
}

TEST(SplitLossTest, LossWhoseLogitsHaveAnotherReaderStaysWhole) {
  Head head({4, 2, 3}, 5);
  head.graph.add_output({.name = "sum", .value = head.b.sum_all(head.logits)});
  EXPECT_TRUE(head.stays_whole());
}

TEST(SplitLossTest, LossThatWaitsForItsOwnResultsStaysWhole) {
  Head head({4, 2, 3}, 5);
  const ValueId other = head.b.exp(head.weight_gradient);
  const ValueId again = head.b.dot(head.gradient, other, {.lhs_contract = {2}, .rhs_contract = {1}});
  head.graph.add_output({.name = "again", .value = again});
  EXPECT_TRUE(head.stays_whole());
}

TEST(SplitLossTest, ForwardPassAloneStaysWhole) {
  ir::Graph graph("forward");
  ops::Builder b(graph);
  const ValueId hidden = b.input("hidden", {DType::f32, {4, 2, 3}}, ir::Role::batch);
  const ValueId weight = b.input("weight", {DType::f32, {3, 5}}, ir::Role::weight);
  const ValueId labels = b.input("labels", {DType::i32, {4, 2}}, ir::Role::batch);
  const ValueId logits = b.matmul(hidden, weight);
  graph.add_output({.name = "losses", .value = b.node("cross_entropy", {logits, labels})[0]});
  EXPECT_EQ(ir::print(split_loss(graph, 1)), ir::print(graph));
}

}  // namespace
}  // namespace megacpp::schedule
