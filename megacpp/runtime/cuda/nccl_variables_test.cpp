// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/nccl_variables.h"

#include <gtest/gtest.h>

namespace megacpp::runtime::cuda {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

TEST(NcclVariablesTest, NothingIsSaidWhereEachHasAGpu) {
  const std::vector<GpuUser> users = {{"gpu0", "a"}, {"gpu1", "a"}, {"gpu2", "b"}, {"gpu3", "b"}};
  for (size_t process = 0; process < users.size(); ++process)
    EXPECT_EQ(nccl_variables(users, process), Variables()) << process;
}

TEST(NcclVariablesTest, WhoSharesAGpuIsOnAHostOfItsOwn) {
  const std::vector<GpuUser> users = {{"gpu0", "a"}, {"gpu0", "a"}, {"gpu0", "a"}};
  EXPECT_EQ(nccl_variables(users, 0), (Variables{{"NCCL_SOCKET_IFNAME", "lo"}}));
  EXPECT_EQ(nccl_variables(users, 1), (Variables{{"NCCL_HOSTID", "a-1"}, {"NCCL_SOCKET_IFNAME", "lo"}}));
  EXPECT_EQ(nccl_variables(users, 2), (Variables{{"NCCL_HOSTID", "a-2"}, {"NCCL_SOCKET_IFNAME", "lo"}}));
}

// The second users of both GPUs are one host, and of another machine another.
TEST(NcclVariablesTest, NeighboursOnOtherGpusStayNeighbours) {
  const std::vector<GpuUser> users = {{"gpu0", "a"}, {"gpu1", "a"}, {"gpu0", "a"},
                                      {"gpu1", "a"}, {"gpu2", "b"}, {"gpu2", "b"}};
  EXPECT_EQ(nccl_variables(users, 1), Variables());
  EXPECT_EQ(nccl_variables(users, 2), (Variables{{"NCCL_HOSTID", "a-1"}}));
  EXPECT_EQ(nccl_variables(users, 3), (Variables{{"NCCL_HOSTID", "a-1"}}));
  EXPECT_EQ(nccl_variables(users, 5), (Variables{{"NCCL_HOSTID", "b-1"}}));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
