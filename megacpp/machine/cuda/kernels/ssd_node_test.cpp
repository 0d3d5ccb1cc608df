// SPDX-License-Identifier: Apache-2.0
// Which kernel takes a node of ssd, what is refused, and how much workspace the gradient asks for.
#include "megacpp/machine/cuda/kernels/ssd_node.h"

#include <gtest/gtest.h>

#include "megacpp/machine/cuda/kernels/ssd_grad_mma.h"
#include "megacpp/machine/cuda/kernels/ssd_grad_plain.h"

namespace megacpp::runtime::cuda {
namespace {

using ir::DType;

struct NodeSizes {
  int64_t seq = 100, heads = 6, head_dim = 64, state = 128;
};

// ssd_grad on two sequences, with two groups.
struct GradNode {
  explicit GradNode(const NodeSizes& z, DType dtype = DType::bf16, DType dy = DType::bf16)
      : operands{{dtype, {2, z.seq, z.heads, z.head_dim}},
                 {DType::f32, {2, z.seq, z.heads}},
                 {DType::f32, {z.heads}},
                 {dtype, {2, z.seq, 2, z.state}},
                 {dtype, {2, z.seq, 2, z.state}},
                 {dy, {2, z.seq, z.heads, z.head_dim}}},
        results(operands.begin(), operands.begin() + 5) {
    attrs.set("chunk", int64_t{64});
  }
  ops::NodeView view() const { return {operands, results, attrs}; }
  SsdGradNode node() const { return ssd_grad_node(view()); }

  ops::Types operands, results;
  ir::Attrs attrs;
};

TEST(SsdNodeTest, TensorCoresTakeBf16OfTheirSizes) {
  EXPECT_TRUE(GradNode({}).node().is_for_tensor_cores());
  EXPECT_FALSE(GradNode({}, DType::f32).node().is_for_tensor_cores());
  EXPECT_FALSE(GradNode({}, DType::bf16, DType::f32).node().is_for_tensor_cores());
  EXPECT_FALSE(GradNode({.head_dim = 32}).node().is_for_tensor_cores());
  EXPECT_FALSE(GradNode({.state = 64}).node().is_for_tensor_cores());
  EXPECT_FALSE(GradNode({.seq = 0}).node().is_for_tensor_cores());
  EXPECT_FALSE(GradNode({.heads = 0}).node().is_for_tensor_cores());
}

TEST(SsdNodeTest, LargeStatesAreLeftToTheDecomposition) {
  EXPECT_TRUE(supports_ssd(GradNode({.state = 256}).view()));
  const base::Decision decision = supports_ssd(GradNode({.state = 257}).view());
  EXPECT_FALSE(decision);
  EXPECT_EQ(decision.reason(), "a state of 257, more than the 256 that a warp holds");
}

TEST(SsdNodeTest, PositionsStandBehindTheOthers) {
  GradNode packed({});
  EXPECT_FALSE(packed.node().forward.positions);
  packed.operands.push_back({DType::i32, {2, 100}});
  EXPECT_EQ(packed.node().forward.positions, size_t{6});
}

TEST(SsdNodeTest, LanesHoldTheWholeState) {
  const auto elements = [](int64_t state) {
    return ssd_lane_elements(GradNode({.state = state}).node().forward.sizes);
  };
  EXPECT_EQ(elements(1), 1);
  EXPECT_EQ(elements(32), 1);
  EXPECT_EQ(elements(33), 2);
  EXPECT_EQ(elements(96), 4);
  EXPECT_EQ(elements(256), 8);
}

TEST(SsdNodeTest, WalksTakeTwoHeadsOfAGroupWhereTheyCan) {
  const auto heads = [](int64_t all, int64_t groups) {
    return ssd_block_heads({.batch = 1, .seq = 64, .heads = all, .head_dim = 64, .groups = groups, .state = 128});
  };
  EXPECT_EQ(heads(64, 1), 2);
  EXPECT_EQ(heads(6, 3), 2);
  EXPECT_EQ(heads(6, 2), 1);
  EXPECT_EQ(heads(3, 3), 1);
}

TEST(SsdNodeTest, WorkspaceHoldsStatesBetweenChunksBothWays) {
  const int64_t chunks = 2, states = 2 * 6 * chunks * 64 * 128 * 2;
  const int64_t rates = 256;  // 2 x 2 x 6 floats, rounded up
  EXPECT_EQ(SsdGradMma::workspace_bytes(GradNode({}).node()), 2 * states + rates);
}

TEST(SsdNodeTest, PlainWorkspaceHoldsStatesAndProjectionsOfEachHead) {
  const GradNode small({.seq = 17, .heads = 2, .head_dim = 4, .state = 8}, DType::f32, DType::f32);
  const int64_t heads = 2 * 2, states = heads * 2 * 4 * 8 * 4, dstates = heads * 4 * 8 * 4;
  const int64_t projections = 2304;  // 4 x 17 x 8 floats, rounded up
  EXPECT_EQ(SsdGradPlain::workspace_bytes(small.node()), states + dstates + 2 * projections + 256);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
