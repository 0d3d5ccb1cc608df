// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/plugins/gpu_shares.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/errors.h"

namespace megacpp::runtime::plugins {
namespace {

using Devices = std::vector<int64_t>;

TEST(GpuSharesTest, ProcessesOfAMachineDivideItsGpus) {
  const std::vector<GpuUser> users = {{.machine = "a", .gpus = 4},
                                      {.machine = "a", .gpus = 4},
                                      {.machine = "b", .gpus = 4},
                                      {.machine = "b", .gpus = 4}};
  EXPECT_EQ(gpu_share(users, 0, 2).devices, (Devices{0, 1}));
  EXPECT_EQ(gpu_share(users, 1, 2).devices, (Devices{2, 3}));
  EXPECT_EQ(gpu_share(users, 2, 2).devices, (Devices{0, 1}));
  EXPECT_EQ(gpu_share(users, 3, 2).devices, (Devices{2, 3}));
  EXPECT_EQ(gpu_share(users, 3, 2).sharers, 1);
}

TEST(GpuSharesTest, AProcessThatALauncherGaveItsOwnCountsFromTheFirst) {
  const std::vector<GpuUser> users = {{.machine = "a", .visible = "0", .gpus = 1},
                                      {.machine = "a", .visible = "1", .gpus = 1}};
  EXPECT_EQ(gpu_share(users, 0, 1).devices, Devices{0});
  EXPECT_EQ(gpu_share(users, 1, 1).devices, Devices{0});
}

TEST(GpuSharesTest, ACountThatIsNotKnownIsThePluginsMatter) {
  const std::vector<GpuUser> users = {{.machine = "a"}, {.machine = "a"}};
  EXPECT_EQ(gpu_share(users, 1, 4).devices, (Devices{4, 5, 6, 7}));
}

TEST(GpuSharesTest, OneGpuIsSharedWhereProcessesSayThatTheyMeanIt) {
  std::vector<GpuUser> users = {{.machine = "a", .gpus = 1, .host_id = "0"}, {.machine = "a", .gpus = 1}};
  const base::Problem problem = testing_support::problem_of(base::Code::E1504, [&] { gpu_share(users, 0, 1); });
  EXPECT_EQ(problem.got, "1 GPUs for 2 processes with 1 chips each");
  EXPECT_NE(problem.next.find("NCCL_HOSTID"), std::string::npos);
  users[1].host_id = "0";
  testing_support::problem_of(base::Code::E1504, [&] { gpu_share(users, 1, 1); });
  users[1].host_id = "1";
  EXPECT_EQ(gpu_share(users, 1, 1).devices, Devices{0});
  EXPECT_EQ(gpu_share(users, 1, 1).sharers, 2);
  testing_support::problem_of(base::Code::E1504, [&] { gpu_share(users, 1, 2); });
}

TEST(GpuSharesTest, WhatAProcessSaysComesFromItsEnvironment) {
  const std::map<std::string, std::string> variables = {{"CUDA_VISIBLE_DEVICES", "2,5"}, {"NCCL_HOSTID", "x"}};
  const auto variable = [&](const std::string& name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::string() : at->second;
  };
  const GpuUser user = gpu_user("a", variable, 8);
  EXPECT_EQ(user, (GpuUser{.machine = "a", .visible = "2,5", .gpus = 2, .host_id = "x"}));
  EXPECT_EQ(gpu_user_of(to_text(user)), user);
  EXPECT_EQ(gpu_user(
                "a", [](const std::string&) { return std::string(); }, 8)
                .gpus,
            8);
}

}  // namespace
}  // namespace megacpp::runtime::plugins
