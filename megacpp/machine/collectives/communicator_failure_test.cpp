// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/support/communicator_failures.h"
#include "tests/support/process_fleet.h"

namespace megacpp::testing_support::failures {

INSTANTIATE_TEST_SUITE_P(Transports, FailureTest, testing::ValuesIn(transports_and_fleets()),
                         [](const auto& info) { return std::string(info.param.transport.properties.name); });

}  // namespace megacpp::testing_support::failures
