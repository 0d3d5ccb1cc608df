// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/reduce_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace megacpp::runtime::cuda {
namespace {

ReducePlan plan_for(ir::Shape shape, std::vector<int64_t> dims) {
  const ops::Types operands = {{ir::DType::f32, std::move(shape)}};
  const ir::Attrs attrs = {{"dims", std::move(dims)}, {"kind", std::string("sum")}};
  const ops::Types results = ops::op_def("reduce").infer(operands, attrs);
  return plan_reduce({operands, results, attrs});
}

int64_t offset_along(const ReduceDims& dims, int64_t index) {
  int64_t offset = 0;
  for (int32_t d = dims.dims - 1; d >= 0; --d) {
    offset += index % dims.sizes[d] * dims.strides[d];
    index /= dims.sizes[d];
  }
  return offset;
}

// Different ones that the accesses of all kept and folded indices read; the last of them is read too.
size_t elements_seen(const ReducePlan& plan) {
  const ReduceParams& params = plan.params;
  const int64_t columns = static_cast<int64_t>(params.kept) / (plan.folds_rows ? 1 : plan.vector);
  std::set<int64_t> seen;
  for (int64_t k = 0; k < columns; ++k)
    for (int64_t f = 0; f < static_cast<int64_t>(params.folded); ++f)
      for (int64_t v = 0; v < plan.vector; ++v)
        seen.insert(offset_along(params.kept_dims, k) + offset_along(params.folded_dims, f) + v);
  return *seen.rbegin() + 1 == static_cast<int64_t>(seen.size()) ? seen.size() : 0;
}

TEST(ReducePlanTest, KeptAndFoldedElementsTogetherAreAllOfThem) {
  const ir::Shape shape = {3, 1, 4, 5};
  for (const std::vector<int64_t>& dims :
       std::vector<std::vector<int64_t>>{{}, {0}, {3}, {0, 3}, {1}, {2}, {0, 2}, {1, 2, 3}, {0, 1, 2, 3}}) {
    EXPECT_EQ(elements_seen(plan_for(shape, dims)), 60U) << ir::to_string(dims);
    EXPECT_EQ(elements_seen(plan_for({3, 1, 4, 8}, dims)), 96U) << ir::to_string(dims);
  }
}

TEST(ReducePlanTest, AccessesHaveSixteenBytesWhereRunsOfNeighboursAreMadeOfThem) {
  EXPECT_EQ(plan_for({6, 8}, {0}).vector, 4);
  EXPECT_EQ(plan_for({6, 10}, {0}).vector, 1);
  EXPECT_EQ(plan_for({6, 5, 2, 2}, {0, 2, 3}).vector, 4) << "neighbours are counted together";
  EXPECT_EQ(plan_for({6, 8}, {1}).params.folded, 2U);
  EXPECT_EQ(plan_for({6, 8}, {0}).params.kept, 8U);
}

TEST(ReducePlanTest, NeighboursInMemoryAreFoldedByABlockOrKeptByItsThreads) {
  EXPECT_FALSE(plan_for({8, 64}, {0}).folds_rows);
  EXPECT_TRUE(plan_for({8, 6, 64}, {0, 2}).folds_rows);
  EXPECT_FALSE(plan_for({8, 64, 1}, {0, 2}).folds_rows) << "a dimension of one has no neighbours";
}

TEST(ReducePlanTest, LongFoldsOfFewElementsHavePartsThatCoverThem) {
  const ReducePlan plan = plan_for({32768, 64}, {0});
  EXPECT_GT(plan.params.parts, 16);
  EXPECT_GE(static_cast<uint64_t>(plan.params.parts) * plan.params.part, plan.params.folded);
  EXPECT_EQ(plan.workspace_bytes(), plan.params.parts * 64 * 4);
  EXPECT_EQ(plan_for({4, 100000}, {0}).params.parts, 1);
  EXPECT_EQ(plan_for({4, 100000}, {0}).workspace_bytes(), 0);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
