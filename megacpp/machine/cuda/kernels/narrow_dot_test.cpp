// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/narrow_dot.h"

#include <gtest/gtest.h>

#include <utility>

namespace megacpp::runtime::cuda {
namespace {

using NarrowDims = std::vector<int64_t>;

struct NarrowCase {
  ir::TensorType lhs, rhs, result;
  NarrowDims lhs_contract, rhs_contract;
  bool has_addend = false;
};

std::optional<NarrowDot> narrow_of(const NarrowCase& c) {
  ops::Types operands = {c.lhs, c.rhs};
  if (c.has_addend) operands.push_back(c.result);
  const ops::Types results = {c.result};
  const ir::Attrs attrs = {{"lhs_contract", c.lhs_contract},
                           {"rhs_contract", c.rhs_contract},
                           {"lhs_batch", NarrowDims{}},
                           {"rhs_batch", NarrowDims{}}};
  return narrow_dot({operands, results, attrs});
}

ir::TensorType wide_side(ir::Shape shape) { return {ir::DType::bf16, std::move(shape)}; }
ir::TensorType full_side(ir::Shape shape) { return {ir::DType::f32, std::move(shape)}; }

TEST(NarrowDotTest, ProductsOfARouterAreTaken) {
  EXPECT_EQ(narrow_of({wide_side({8, 4096, 2048}), full_side({2048, 8}), full_side({8, 4096, 8}), {2}, {0}}),
            (NarrowDot{NarrowDot::Kind::rows, 32768, 2048, 8}));
  EXPECT_EQ(narrow_of({wide_side({8, 4096, 2048}), full_side({8, 4096, 8}), full_side({2048, 8}), {0, 1}, {0, 1}}),
            (NarrowDot{NarrowDot::Kind::sums, 32768, 2048, 8}));
  EXPECT_EQ(narrow_of({full_side({8, 4096, 8}), full_side({2048, 8}), wide_side({8, 4096, 2048}), {2}, {1}, true}),
            (NarrowDot{NarrowDot::Kind::spread, 32768, 2048, 8, true}));
}

TEST(NarrowDotTest, WhatIsNotNarrowOrLiesOtherwiseIsNot) {
  EXPECT_FALSE(narrow_of({wide_side({64, 256}), full_side({256, 17}), full_side({64, 17}), {1}, {0}})) << "columns";
  EXPECT_FALSE(narrow_of({wide_side({64, 260}), full_side({260, 8}), full_side({64, 8}), {1}, {0}}))
      << "no whole accesses";
  EXPECT_FALSE(narrow_of({wide_side({64, 256}), full_side({8, 256}), full_side({64, 8}), {1}, {1}}))
      << "transposed weights";
  EXPECT_FALSE(narrow_of({wide_side({64, 8192}), full_side({8192, 8}), full_side({64, 8}), {1}, {0}}))
      << "shared memory";
  EXPECT_FALSE(narrow_of({full_side({64, 8}), full_side({256, 8}), full_side({64, 256}), {1}, {1}}))
      << "the library has it";
}

TEST(NarrowDotTest, PartsCoverAllRowsAndTheirSumsFitTheWorkspace) {
  for (const int64_t rows : {2, 127, 128, 129, 32768, 32769, 1000003}) {
    SCOPED_TRACE(rows);
    const NarrowDot dot{NarrowDot::Kind::sums, rows, 64, 9};
    EXPECT_GE(dot.parts() * dot.part_rows(), rows);
    EXPECT_LT((dot.parts() - 1) * dot.part_rows(), rows);
    EXPECT_LE(dot.parts(), 264);
    EXPECT_EQ(dot.workspace_bytes(), dot.parts() * 64 * 16 * 4);
  }
}

}  // namespace
}  // namespace megacpp::runtime::cuda
