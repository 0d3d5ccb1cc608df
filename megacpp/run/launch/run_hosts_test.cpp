// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_hosts.h"

#include <gtest/gtest.h>

namespace megacpp::launch {
namespace {

TEST(RunHostsTest, ProcessesOfAMachineAreOneHost) {
  const std::vector<RunHost> hosts = run_hosts({{.machine = "boot 2", .name = "node8", .free_bytes = 50},
                                                {.machine = "boot 1", .name = "node7", .free_bytes = 40},
                                                {.machine = "boot 2", .name = "node8", .free_bytes = 30},
                                                {.machine = "boot 3", .name = "node7", .free_bytes = 60}});
  EXPECT_EQ(hosts, (std::vector<RunHost>{{.name = "node8", .processes = {0, 2}, .free_bytes = 30},
                                         {.name = "node7", .processes = {1}, .free_bytes = 40},
                                         {.name = "node7", .processes = {3}, .free_bytes = 60}}));
}

// As processes have them: those that differ along `model` stay together.
TEST(RunHostsTest, ChipsAreDealtToHostsAsToTheirProcesses) {
  const fit::Hosts hosts = planned_hosts({{.name = "node7", .processes = {0, 2}, .free_bytes = 30},
                                          {.name = "node8", .processes = {1}, .free_bytes = 40},
                                          {.name = "node9", .processes = {3}, .free_bytes = 50}});
  ASSERT_EQ(hosts.all.size(), 3u);
  EXPECT_EQ(hosts.all[1].name, "node8");
  EXPECT_EQ(hosts.all[1].bytes, 40);
  EXPECT_EQ(hosts.of_chips(ir::Mesh({{"data", 4}, {"model", 2}})), (std::vector<int64_t>{0, 0, 1, 1, 0, 0, 2, 2}));
  EXPECT_EQ(hosts.of_chips(ir::Mesh({{"model", 2}, {"data", 4}})), (std::vector<int64_t>{0, 1, 0, 2, 0, 1, 0, 2}));
}

}  // namespace
}  // namespace megacpp::launch
