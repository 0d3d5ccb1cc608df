// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/transpose_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace megacpp::runtime::cuda {
namespace {

// The elements of 0, 1, 2, .. in the order that the dimensions give them.
std::vector<int64_t> walked(const std::vector<TransposedDim>& dims, int64_t elements) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < elements; ++i) {
    int64_t from = 0;
    for (const TransposedDim& dim : dims) from += i / dim.to_stride % dim.size * dim.from_stride;
    order.push_back(from);
  }
  return order;
}

std::vector<int64_t> transposed(const ir::Shape& shape, const std::vector<int64_t>& permutation) {
  const ir::Shape strides = ir::strides_of(shape);
  std::vector<int64_t> order;
  const int64_t elements = ir::num_elements(shape);
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i, from = 0;
    for (size_t d = permutation.size(); d-- > 0;) {
      const size_t source = static_cast<size_t>(permutation[d]);
      from += rest % shape[source] * strides[source];
      rest /= shape[source];
    }
    order.push_back(from);
  }
  return order;
}

TEST(TransposePlanTest, EveryPermutationOfFourDimensionsIsWalkedAsWritten) {
  for (const ir::Shape& shape : {ir::Shape{2, 3, 4, 5}, ir::Shape{3, 1, 2, 4}, ir::Shape{1, 1, 1, 1}}) {
    std::vector<int64_t> permutation(4);
    std::iota(permutation.begin(), permutation.end(), int64_t{0});
    do {
      EXPECT_EQ(walked(transposed_dims(shape, permutation), ir::num_elements(shape)), transposed(shape, permutation))
          << ir::to_string(permutation) << " of " << ir::to_string(shape);
    } while (std::next_permutation(permutation.begin(), permutation.end()));
  }
}

TEST(TransposePlanTest, NeighboursThatStayNeighboursAreOneDimension) {
  EXPECT_EQ(transposed_dims({2, 3, 4, 5}, {0, 1, 2, 3}).size(), 1U);
  EXPECT_EQ(transposed_dims({2, 3, 4, 5}, {2, 3, 0, 1}).size(), 2U);
  EXPECT_EQ(transposed_dims({2, 3, 1, 5}, {1, 2, 0, 3}).size(), 3U);
  EXPECT_TRUE(transposed_dims({1, 1}, {1, 0}).empty());
}

}  // namespace
}  // namespace megacpp::runtime::cuda
