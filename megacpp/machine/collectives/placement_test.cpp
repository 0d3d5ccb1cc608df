// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace megacpp::collectives {
namespace {

const ir::Mesh kMixed({{"data", 2}, {"expert", 2}, {"context", 2}, {"model", 2}});

TEST(PlacementTest, ByNumberWhereTheMeshHasTheClosestAxesLast) {
  const ir::Mesh mesh({{"data", 2}, {"expert", 2}, {"model", 2}});
  EXPECT_EQ(dealing_order(mesh), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(owners_of({.chips = 4, .processes = 2}), (std::vector<int64_t>{0, 0, 1, 1}));
}

TEST(PlacementTest, TensorAndExpertParallelismStayInsideAProcess) {
  const std::vector<int64_t> order = dealing_order(kMixed);
  ASSERT_EQ(order.size(), 16u);
  EXPECT_EQ(order.front(), 0);
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end());
  const std::vector<int64_t> owners = owners_of({.chips = 16, .processes = 4, .order = order});
  EXPECT_EQ(owners[0], 0);
  EXPECT_EQ(placement_text(kMixed, owners), "expert, model inside a process; data, context across");
  EXPECT_EQ(placement_text(kMixed, owners_of({.chips = 16, .processes = 4})),
            "context, model inside a process; data, expert across");
}

TEST(PlacementTest, WhatFitsNowhereGoesAcross) {
  const std::vector<int64_t> owners = owners_of({.chips = 16, .processes = 16, .order = dealing_order(kMixed)});
  EXPECT_EQ(placement_text(kMixed, owners), "data, expert, context, model across");
  EXPECT_EQ(placement_text(kMixed, owners_of({.chips = 16, .processes = 1})),
            "data, expert, context, model inside a process");
  EXPECT_EQ(placement_text(ir::Mesh(), {0}), "one chip");
}

TEST(PlacementTest, AnAxisInTwoStepsStaysTogether) {
  const ir::Mesh mesh({{"data", 2}, {"expert", 2}, {"context", 2}, {"model.0", 2}, {"model.1", 2}});
  const std::vector<int64_t> owners = owners_of({.chips = 32, .processes = 8, .order = dealing_order(mesh)});
  EXPECT_EQ(placement_text(mesh, owners), "model.0, model.1 inside a process; data, expert, context across");
}

}  // namespace
}  // namespace megacpp::collectives
