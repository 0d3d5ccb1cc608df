// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/rms_norm_plan.h"

#include <gtest/gtest.h>

#include "megacpp/machine/cuda/kernels/rms_norm_params.h"

namespace megacpp::runtime::cuda {
namespace {

// Of x [rows, width] with groups of `group` elements; calls `body` with the node.
template <typename Body>
auto with_norm(ir::DType dtype, ir::Shape shape, int64_t group, const Body& body) {
  const ops::Types operands = {{dtype, shape}, {dtype, {shape.back()}}};
  const ir::Attrs attrs = {{"eps", 1e-5}, {"group_size", group}};
  const ops::Types results = ops::op_def("rms_norm").infer(operands, attrs);
  return body(ops::NodeView{operands, results, attrs});
}

RmsNormPlan norm_plan(ir::DType dtype, ir::Shape shape, int64_t group = 0) {
  return with_norm(dtype, std::move(shape), group, plan_rms_norm);
}

TEST(RmsNormPlanTest, LanesHoldAGroupInRegisters) {
  for (const int64_t width : {1, 7, 64, 100, 2048, 8192})
    for (const ir::DType dtype : {ir::DType::f32, ir::DType::bf16}) {
      const RmsNormPlan plan = norm_plan(dtype, {64, width});
      EXPECT_EQ(plan.group % plan.vector, 0) << width;
      EXPECT_GE(plan.lanes * plan.held * plan.vector, width);
      EXPECT_EQ(plan.threads % plan.lanes, 0);
      EXPECT_EQ(plan.lanes & (plan.lanes - 1), 0) << "a power of two";
      EXPECT_TRUE(plan.rows_of_block() == 1 || plan.lanes <= kRmsNormSharedLanes) << width;
    }
  EXPECT_EQ(norm_plan(ir::DType::bf16, {64, 2048}).vector, 8);
  EXPECT_EQ(norm_plan(ir::DType::bf16, {64, 2048}).lanes, 32) << "a warp has a row";
  EXPECT_EQ(norm_plan(ir::DType::bf16, {64, 2047}).vector, 1);
}

TEST(RmsNormPlanTest, BlocksOfTheGradientCoverAllRowsInBoundedPartialSums) {
  const RmsNormPlan many = norm_plan(ir::DType::bf16, {32768, 2048});
  EXPECT_LT(many.grad_blocks(), many.row_blocks());
  EXPECT_EQ(many.grad_workspace_bytes(), many.parts() * 2048 * 4);
  EXPECT_LE(many.grad_workspace_bytes(), 64 << 20);
  const RmsNormPlan few = norm_plan(ir::DType::f32, {3, 64});
  EXPECT_EQ(few.grad_blocks(), 1);
  const RmsNormPlan grouped = norm_plan(ir::DType::f32, {4096, 4096}, 4);
  EXPECT_EQ(grouped.groups, 1024);
  EXPECT_EQ(grouped.grad_blocks(), 1);
}

TEST(RmsNormPlanTest, TwoBlocksOfTheGradientFitAMultiprocessor) {
  const RmsNormPlan staged = norm_plan(ir::DType::bf16, {32768, 8192});
  EXPECT_EQ(staged.spread, "eight");
  EXPECT_EQ(staged.threads, kRmsNormThreads);
  EXPECT_EQ(staged.held, kRmsNormStagedVectors);
  constexpr int64_t kSharedBytes = 228 << 10, kReserved = 1 << 10;  // of a multiprocessor, and of each block
  const int64_t sums = staged.held * staged.vector * kRmsNormSharedLanes * 4;
  EXPECT_LE(2 * (staged.grad_shared_bytes() + sums + kReserved), kSharedBytes);
  EXPECT_EQ(norm_plan(ir::DType::bf16, {32768, 64}).grad_shared_bytes(), 0);
}

TEST(RmsNormPlanTest, AGradientOfGroupsThatRegistersCannotHoldSaysSo) {
  EXPECT_TRUE(with_norm(ir::DType::bf16, {2, 16384}, 0, supports_rms_norm_grad));
  const base::Decision no = with_norm(ir::DType::bf16, {2, 32768}, 0, supports_rms_norm_grad);
  ASSERT_FALSE(no);
  EXPECT_NE(no.reason().find("32768"), std::string::npos) << no.reason();
  EXPECT_TRUE(with_norm(ir::DType::bf16, {2, 32768}, 0, supports_rms_norm));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
