// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/gpu_shares.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/environment.h"
#include "tests/support/environment.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::runtime::plugins {
namespace {

using Devices = std::vector<int64_t>;
using Variables = std::vector<std::pair<std::string, std::string>>;

std::vector<Devices> devices_of(const std::vector<GpusOfProcess>& processes) {
  std::vector<Devices> devices;
  for (const GpuShare& share : gpu_shares(processes)) devices.push_back(share.devices);
  return devices;
}

TEST(GpuSharesTest, ProcessesOfAMachineDivideItsGpus) {
  const GpusOfProcess on_a{.machine = "a", .gpus = {"g0", "g1", "g2", "g3"}, .chips = 2};
  const GpusOfProcess on_b{.machine = "b", .gpus = {"h0", "h1", "h2", "h3"}, .chips = 2};
  EXPECT_EQ(devices_of({on_a, on_a, on_b, on_b}), (std::vector<Devices>{{0, 1}, {2, 3}, {0, 1}, {2, 3}}));
  for (const GpuShare& share : gpu_shares({on_a, on_a, on_b, on_b})) {
    EXPECT_EQ(share.sharers, 1);
    EXPECT_EQ(share.variables, Variables()) << "nothing is said where each has a GPU";
  }
}

TEST(GpuSharesTest, AProcessThatALauncherGaveItsOwnCountsFromTheFirst) {
  EXPECT_EQ(devices_of({{.machine = "a", .gpus = {"g0"}}, {.machine = "a", .gpus = {"g1"}}}),
            (std::vector<Devices>{{0}, {0}}));
}

TEST(GpuSharesTest, TheOrderInWhichTheyAreSeenIsNoMatter) {
  EXPECT_EQ(devices_of({{.machine = "a", .gpus = {"g0", "g1"}}, {.machine = "a", .gpus = {"g1", "g0"}}}),
            (std::vector<Devices>{{0}, {0}}));
  EXPECT_EQ(devices_of({{.machine = "a", .gpus = {"g0", "g1"}}, {.machine = "a", .gpus = {"g0", "g1"}}}),
            (std::vector<Devices>{{0}, {1}}));
}

TEST(GpuSharesTest, WhereTheyCannotTellThePluginWill) {
  const GpusOfProcess process{.machine = "a", .chips = 4};
  EXPECT_EQ(devices_of({process, process}), (std::vector<Devices>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(gpu_shares({process, process})[1].sharers, 1);
}

TEST(GpuSharesTest, WhoSharesAGpuIsOnAHostOfItsOwn) {
  const GpusOfProcess process{.machine = "a", .gpus = {"g0"}};
  const std::vector<GpuShare> shares = gpu_shares({process, process, process});
  for (const GpuShare& share : shares) {
    EXPECT_EQ(share.devices, Devices{0});
    EXPECT_EQ(share.sharers, 3);
  }
  EXPECT_EQ(shares[0].variables, (Variables{{"NCCL_SOCKET_IFNAME", "lo"}}));
  EXPECT_EQ(shares[1].variables, (Variables{{"NCCL_HOSTID", "a-1"}, {"NCCL_SOCKET_IFNAME", "lo"}}));
  EXPECT_EQ(shares[2].variables, (Variables{{"NCCL_HOSTID", "a-2"}, {"NCCL_SOCKET_IFNAME", "lo"}}));
}

// The second users of both GPUs are one host, and of another machine another.
TEST(GpuSharesTest, NeighboursOnOtherGpusStayNeighbours) {
  const GpusOfProcess on_a{.machine = "a", .gpus = {"g0", "g1"}}, on_b{.machine = "b", .gpus = {"h0"}};
  const std::vector<GpuShare> shares = gpu_shares({on_a, on_a, on_a, on_a, on_b, on_b});
  EXPECT_EQ(shares[1].variables, Variables());
  EXPECT_EQ(shares[2].variables, (Variables{{"NCCL_HOSTID", "a-1"}}));
  EXPECT_EQ(shares[3].variables, (Variables{{"NCCL_HOSTID", "a-1"}}));
  EXPECT_EQ(shares[5].variables, (Variables{{"NCCL_HOSTID", "b-1"}}));
  EXPECT_EQ(shares[3].devices, Devices{1});
}

TEST(GpuSharesTest, AProcessWithMoreChipsThanGpusIsRefused) {
  const base::Problem problem = testing_support::problem_of(base::Code::E1504, [] {
    gpu_shares({{.machine = "a", .gpus = {"g0"}}, {.machine = "b", .gpus = {"h0"}, .chips = 2}});
  });
  EXPECT_EQ(problem.where, "process 1 on b");
  EXPECT_EQ(problem.got, "1 GPU for 2 chips of the process");
}

TEST(GpuSharesTest, WhatAProcessSaysIsReadAgain) {
  const GpusOfProcess process{.machine = "a", .gpus = {"g0", "g1"}, .chips = 2};
  EXPECT_EQ(gpus_of_process(to_text(process)), process);
}

TEST(GpuSharesTest, WhatTheUserHasSetStays) {
  const testing_support::Variable host("NCCL_HOSTID", "mine"), interface("NCCL_SOCKET_IFNAME", "eth7");
  testing_support::Processes processes(2);
  processes.run([&](size_t process) {
    const std::unique_ptr<collectives::World> world = processes.transport(process).make({.chips = 2});
    const GpuShare share = share_gpus(*world, {.machine = "a", .gpus = {"g0"}});
    EXPECT_EQ(share.sharers, 2);
  });
  EXPECT_EQ(base::environment_variable("NCCL_HOSTID"), "mine");
  EXPECT_EQ(base::environment_variable("NCCL_SOCKET_IFNAME"), "eth7");
}

}  // namespace
}  // namespace megacpp::runtime::plugins
