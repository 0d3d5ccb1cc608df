// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/call.h"

#include <gtest/gtest.h>

namespace megacpp::collectives {
namespace {

TEST(CallTest, ResultShapesFollowFromTheKind) {
  const Part part = {.shape = {4, 6, 8}, .dim = 2, .concat_dim = 0};
  EXPECT_EQ(result_shape(Kind::all_gather, part, 2), (ir::Shape{4, 6, 16}));
  EXPECT_EQ(result_shape(Kind::reduce_scatter, part, 2), (ir::Shape{4, 6, 4}));
  EXPECT_EQ(result_shape(Kind::all_reduce, part, 2), (ir::Shape{4, 6, 8}));
  EXPECT_EQ(result_shape(Kind::all_to_all, part, 2), (ir::Shape{8, 6, 4}));
  EXPECT_EQ(result_shape(Kind::recv, part, 1), (ir::Shape{4, 6, 8}));
}

TEST(CallTest, PrintsWhatMovesAndWhere) {
  const Part part = {.shape = {4, 6}, .dim = 1};
  EXPECT_EQ(to_string(Call{.kind = Kind::all_gather, .parts = {part, part}, .where = "block07"}),
            "all_gather of f32[4,6] along 1, f32[4,6] along 1 in block07");
  EXPECT_EQ(to_string(Call{.kind = Kind::all_to_all, .parts = {part}, .where = "x"}),
            "all_to_all of f32[4,6] along 1 to 0 in x");
  EXPECT_EQ(to_string(Call{.kind = Kind::all_reduce, .reduction = Reduction::max, .parts = {part}, .where = "x"}),
            "all_reduce (max) of f32[4,6] in x");
  EXPECT_EQ(to_string(Call{.kind = Kind::permute, .shift = -1, .parts = {part}, .where = "x"}),
            "permute by -1 of f32[4,6] in x");
  EXPECT_EQ(to_string(Call{.kind = Kind::send, .peer = 3, .tag = 9, .parts = {part}, .where = "x"}),
            "send to chip 3, tag 9 of f32[4,6] in x");
}

TEST(CallTest, OnlyWhatAKindUsesIsCompared) {
  const Call sum = {.kind = Kind::all_reduce, .parts = {{.shape = {4, 6}}}, .where = "x"};
  Call other = sum;
  other.shift = 3;
  other.parts[0].dim = 1;
  EXPECT_TRUE(is_same_movement(sum, other));
  Call gather = sum;
  gather.kind = other.kind = Kind::all_gather;
  EXPECT_FALSE(is_same_movement(gather, other));

  const Call send = {.kind = Kind::send, .parts = {{.shape = {4}}}, .where = "stage0"};
  Call recv = send;
  EXPECT_FALSE(is_same_movement(send, recv));
  recv.kind = Kind::recv;
  recv.where = "stage1";
  EXPECT_TRUE(is_same_movement(send, recv));
}

TEST(CallTest, TheHashIsThatOfTheMovement) {
  const Call sum = {.kind = Kind::all_reduce, .parts = {{.shape = {4, 6}}}, .where = "x"};
  Call same = sum;
  same.shift = 3;
  same.parts[0].dim = 1;
  EXPECT_EQ(movement_hash(sum), movement_hash(same));
  const auto expect_other = [&sum](void (*change)(Call&)) {
    Call other = sum;
    change(other);
    EXPECT_NE(movement_hash(sum), movement_hash(other));
  };
  expect_other([](Call& call) { call.kind = Kind::all_gather; });
  expect_other([](Call& call) { call.dtype = ir::DType::i32; });
  expect_other([](Call& call) { call.reduction = Reduction::max; });
  expect_other([](Call& call) { call.parts[0].shape = {6, 4}; });
  expect_other([](Call& call) { call.parts.push_back(call.parts[0]); });
  expect_other([](Call& call) { call.where = "y"; });

  const Call send = {.kind = Kind::send, .tag = 3, .parts = {{.shape = {4}}}, .where = "stage0"};
  Call recv = send;
  recv.kind = Kind::recv;
  recv.where = "stage1";
  EXPECT_EQ(movement_hash(send), movement_hash(recv));
  recv.tag = 4;
  EXPECT_NE(movement_hash(send), movement_hash(recv));
}

}  // namespace
}  // namespace megacpp::collectives
