// SPDX-License-Identifier: Apache-2.0
#include "tests/support/communicator_conformance.h"

#include <string>

#include "tests/support/process_fleet.h"

namespace megacpp::testing_support::conformance {

INSTANTIATE_TEST_SUITE_P(Transports, ConformanceTest, testing::ValuesIn(transports_and_fleets()),
                         [](const auto& info) { return std::string(info.param.transport.properties.name); });

}  // namespace megacpp::testing_support::conformance
