// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/fold_blocks.h"

#include <gtest/gtest.h>

namespace megacpp::ir {
namespace {

TEST(FoldBlocksTest, OnlyNumbersOfBlocksAreLeftOut) {
  EXPECT_EQ(fold_blocks("block07.A.wq"), "block*.A.wq");
  EXPECT_EQ(fold_blocks("add @block1.E: grad.block123.M.w2 [data]"), "add @block*.E: grad.block*.M.w2 [data]");
  EXPECT_EQ(fold_blocks("block.A, blocks, embed2"), "block.A, blocks, embed2");
  EXPECT_EQ(fold_blocks("block"), "block");
  EXPECT_EQ(fold_blocks(""), "");
}

}  // namespace
}  // namespace megacpp::ir
