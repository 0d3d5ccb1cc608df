// SPDX-License-Identifier: Apache-2.0
#include "tests/device_transports/gpu_rig.h"
#include "tests/support/communicator_conformance.h"

namespace megacpp::testing_support::conformance {

INSTANTIATE_TEST_SUITE_P(Devices, ConformanceTest, testing::Values(virtual_chips_rig()),
                         [](const auto& info) { return std::string(info.param.transport.properties.name); });

INSTANTIATE_TEST_SUITE_P(Peers, ConformanceTest, testing::Values(peer_chips_rig()),
                         [](const auto& info) { return std::string(info.param.transport.properties.name); });

}  // namespace megacpp::testing_support::conformance
