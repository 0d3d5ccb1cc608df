// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/builder.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/text.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Role;
using ir::Shape;
using ir::TensorType;

class BuilderTest : public testing::Test {
 protected:
  size_t nodes() const { return graph_.nodes().size(); }

  ir::Graph graph_{"g"};
  Builder b_{graph_};
  ValueId x_ = b_.input("x", {DType::f32, {2, 3}}, Role::batch);
};

TEST_F(BuilderTest, InputCarriesNameTypeAndRoleAndLeavesTheRoleAlone) {
  b_.set_role(Role::activation);
  const ValueId w = b_.input("w", {DType::bf16, {4}}, Role::weight);
  EXPECT_EQ(graph_.find_input("w"), w);
  EXPECT_EQ(b_.type(w), (TensorType{DType::bf16, {4}}));
  EXPECT_EQ(graph_.producer(w).role, Role::weight);
  EXPECT_EQ(graph_.producer(b_.exp(x_)).role, Role::activation);
}

TEST_F(BuilderTest, ScopesNestAndEnd) {
  {
    const Scope block(b_, "block07.M");
    const Scope part(b_, "ssd");
    EXPECT_EQ(graph_.producer(b_.exp(x_)).scope, "block07.M.ssd");
  }
  EXPECT_EQ(graph_.producer(b_.exp(x_)).scope, "");
}

TEST_F(BuilderTest, ScalarsAreBroadcastOnEitherSide) {
  const ValueId one = b_.constant(1.0);
  const Shape wide = {2, 3};
  EXPECT_EQ(b_.shape(b_.add(x_, one)), wide);
  EXPECT_EQ(b_.shape(b_.sub(one, x_)), wide);
  EXPECT_EQ(b_.type(b_.compare(x_, one, "lt")), (TensorType{DType::pred, wide}));
  const ValueId mask = b_.compare(one, x_, "lt");
  EXPECT_EQ(b_.type(mask), (TensorType{DType::pred, wide}));
  EXPECT_EQ(b_.shape(b_.select(mask, one, x_)), wide);
  EXPECT_EQ(b_.shape(b_.select(mask, x_, one)), wide);
  EXPECT_EQ(b_.shape(b_.select(mask, one, one)), wide);
  EXPECT_EQ(b_.shape(b_.select(b_.compare(one, one, "eq"), x_, x_)), wide);
  EXPECT_EQ(b_.shape(b_.add(one, one)), Shape{});
}

TEST_F(BuilderTest, ConstantsTakeTheDtypeAround) {
  const ValueId half = b_.convert(x_, DType::bf16);
  const TensorType type = b_.type(half);  // a copy: appending moves what a reference points to
  EXPECT_EQ(b_.type(b_.scale(half, 2.0)), type);
  EXPECT_EQ(b_.type(b_.offset(half, 2.0)), type);
  EXPECT_EQ(b_.type(b_.softplus(half)), type);
  EXPECT_EQ(b_.type(b_.constant_like(0.0, half)), type);
}

TEST_F(BuilderTest, NothingIsBuiltWhereNothingChanges) {
  const size_t before = nodes();
  EXPECT_EQ(b_.convert(x_, DType::f32), x_);
  EXPECT_EQ(b_.reshape(x_, {2, 3}), x_);
  EXPECT_EQ(b_.slice(x_, -1, 0, 3), x_);
  EXPECT_EQ(b_.pad(x_, 0, 0, 0), x_);
  EXPECT_EQ(b_.concatenate({x_}, 0), x_);
  EXPECT_EQ(nodes(), before);
}

TEST_F(BuilderTest, LayoutOpsInferTheirShapes) {
  EXPECT_EQ(b_.shape(b_.broadcast(x_, {4, 2, 5, 3}, {1, 3})), (Shape{4, 2, 5, 3}));
  EXPECT_EQ(b_.shape(b_.reshape(x_, {6})), Shape{6});
  EXPECT_EQ(b_.shape(b_.transpose(x_, {1, 0})), (Shape{3, 2}));
  EXPECT_EQ(b_.shape(b_.slice(x_, -1, 1, 2)), (Shape{2, 2}));
  EXPECT_EQ(b_.shape(b_.pad(x_, -2, 1, 2)), (Shape{5, 3}));
  EXPECT_EQ(b_.shape(b_.concatenate({x_, x_, x_}, -1)), (Shape{2, 9}));
  EXPECT_EQ(b_.type(b_.iota({4, 5}, 1)), (TensorType{DType::i32, {4, 5}}));
}

TEST_F(BuilderTest, ReductionsAndProductsInferTheirShapes) {
  EXPECT_EQ(b_.shape(b_.reduce_sum(x_, {0})), Shape{3});
  EXPECT_EQ(b_.shape(b_.reduce_max(x_, {1})), Shape{2});
  EXPECT_EQ(b_.shape(b_.sum_all(x_)), Shape{});
  EXPECT_EQ(b_.shape(b_.cumsum(x_, -1)), (Shape{2, 3}));
  const ValueId w = b_.constant(1.0, {3, 5}), batched = b_.constant(1.0, {7, 2, 3});
  EXPECT_EQ(b_.shape(b_.matmul(x_, w)), (Shape{2, 5}));
  EXPECT_EQ(b_.shape(b_.matmul(batched, w)), (Shape{7, 2, 5}));
  EXPECT_EQ(b_.shape(b_.dot(batched, batched,
                            {.lhs_contract = {2}, .rhs_contract = {2}, .lhs_batch = {0}, .rhs_batch = {0}})),
            (Shape{7, 2, 2}));
}

TEST_F(BuilderTest, MismatchIsRefusedAndLeavesTheGraphAlone) {
  const ValueId other = b_.constant(1.0, {3, 2});
  const size_t before = nodes();
  EXPECT_THROW(b_.add(x_, other), base::Error);
  EXPECT_THROW(b_.matmul(x_, x_), base::Error);
  EXPECT_THROW(b_.one("no_such_op", {x_}), base::Error);
  EXPECT_EQ(nodes(), before);
}

TEST_F(BuilderTest, SeveralResultsNeedNode) {
  const ir::Attrs attrs = {{"k", int64_t{2}}};
  EXPECT_EQ(b_.node("top_k", {x_}, attrs).size(), 2u);
  EXPECT_THROW(b_.one("top_k", {x_}, attrs), base::Error);
}

TEST_F(BuilderTest, BuiltGraphsSurvivePrinting) {
  b_.set_scope("head");
  graph_.add_output({.name = "loss", .value = b_.sum_all(b_.silu(b_.softplus(b_.square(x_)))), .donated = ""});
  const std::string text = ir::print(graph_);
  EXPECT_EQ(ir::print(ir::parse(text)), text);
}

}  // namespace
}  // namespace megacpp::ops
