// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/core_share.h"

#include <gtest/gtest.h>

namespace megacpp::launch {
namespace {

TEST(CoreShareTest, CoresOfAMachineAreDivided) {
  const std::vector<int64_t> eight = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<CoreUser> users = {{"a", eight}, {"a", eight}, {"a", eight}, {"b", eight}};
  EXPECT_EQ(core_share(users, 0), 2) << "a third of eight";
  EXPECT_EQ(core_share(users, 3), 8) << "alone on its machine";
}

TEST(CoreShareTest, BoundProcessesKeepTheirCores) {
  const std::vector<CoreUser> users = {{"a", {0, 1, 2}}, {"a", {3, 4}}, {"a", {3, 4, 5, 6}}};
  EXPECT_EQ(core_share(users, 0), 3);
  EXPECT_EQ(core_share(users, 1), 1);
  EXPECT_EQ(core_share(users, 2), 3);
}

TEST(CoreShareTest, NobodyGetsNone) {
  const std::vector<CoreUser> users(4, CoreUser{"a", {0}});
  for (size_t own = 0; own < users.size(); ++own) EXPECT_EQ(core_share(users, own), 1);
  const std::vector<CoreUser> thirds(3, CoreUser{"a", {0, 1, 2}});
  EXPECT_EQ(core_share(thirds, 1), 1);
}

}  // namespace
}  // namespace megacpp::launch
