// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/client.h"

#include <gtest/gtest.h>

#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using testing_support::cpu_client;
using testing_support::cpu_plugin;
using testing_support::problem_of;

class ClientTest : public testing_support::CpuPluginTest {};

TEST_F(ClientTest, HasAsManyDevicesAsItsOptionSays) {
  const Client client = cpu_client(8);
  ASSERT_EQ(client.devices().size(), 8u);
  for (size_t d = 0; d < 8; ++d) {
    EXPECT_EQ(client.devices()[d].id, static_cast<int>(d));
    EXPECT_EQ(client.devices()[d].process, 0);
    EXPECT_FALSE(client.devices()[d].kind.empty());
    EXPECT_FALSE(client.devices()[d].label.empty());
  }
  EXPECT_EQ(client.platform_name(), "cpu");
  EXPECT_FALSE(client.platform_version().empty());
  EXPECT_EQ(&client.plugin(), &cpu_plugin());
}

TEST_F(ClientTest, TooFewDevicesAreRefused) {
  const base::Problem problem = problem_of(Code::E1504, [] {
    Client(cpu_plugin(), {.devices = 3, .options = {{"cpu_device_count", int64_t{2}}}});
  });
  EXPECT_EQ(problem.got, "2 devices");
  EXPECT_EQ(problem.wanted, "3");
}

TEST_F(ClientTest, AnOptionThePluginRefusesIsAFailedCall) {
  problem_of(Code::E3201, [] { Client(cpu_plugin(), {.options = {{"cpu_device_count", std::string("many")}}}); });
}

TEST_F(ClientTest, DevicesWithoutStatisticsSayNothing) {
  const std::optional<DeviceMemory> memory = cpu_client(1).memory(0);
  EXPECT_TRUE(!memory || memory->bytes_in_use >= 0);
}

TEST_F(ClientTest, StartsWithNothingCounted) {
  const Counters counters = cpu_client(1).counters();
  EXPECT_TRUE(counters.compiles.empty());
  EXPECT_EQ(counters.executions, 0);
  EXPECT_EQ(counters.host_to_device.count, 0);
}

TEST(DeviceDescriptionTest, ReadsPlaceAndLimitFromAttributes) {
  const DeviceDescription device{
      .attributes = {{"coords", std::vector<int64_t>{1, 0, 0}}, {"device_memory_bytes_limit", int64_t{33546039296}}}};
  EXPECT_EQ(device.coords(), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(device.memory_limit(), 33546039296);
  EXPECT_TRUE(DeviceDescription{}.coords().empty());
  EXPECT_FALSE(DeviceDescription{}.memory_limit().has_value());
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
