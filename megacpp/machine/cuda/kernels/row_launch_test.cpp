// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/row_launch.h"

#include <gtest/gtest.h>

#include <array>

namespace megacpp::runtime::cuda {
namespace {

TEST(RowLaunchTest, AccessesDivideAllNumbersOfBytes) {
  EXPECT_EQ(access_bytes(std::array<int64_t, 3>{64, 0, 48}), 16);
  EXPECT_EQ(access_bytes(std::array<int64_t, 2>{64, 24}), 8);
  EXPECT_EQ(access_bytes(std::array<int64_t, 2>{6, 64}), 2);
  EXPECT_EQ(access_bytes(std::array<int64_t, 1>{7}), 1);
}

TEST(RowLaunchTest, BlocksCoverRowsAndTheirUnits) {
  for (const int64_t rows : {1, 3, 1000})
    for (const int64_t units : {1, 5, 256, 1000}) {
      const LaunchShape shape = row_launch(rows, units);
      EXPECT_EQ(shape.block[0] * shape.block[1], kRowThreads);
      EXPECT_GE(static_cast<int64_t>(shape.grid[0]) * shape.block[1], rows);
      EXPECT_GE(static_cast<int64_t>(shape.grid[1]) * shape.block[0], units);
    }
}

TEST(RowLaunchTest, NothingToDoIsAnEmptyGrid) {
  EXPECT_EQ(row_launch(0, 8).grid[0], 0U);
  EXPECT_EQ(row_launch(8, 0).grid[0], 0U);
  EXPECT_EQ(flat_launch(0).grid[0], 0U);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
