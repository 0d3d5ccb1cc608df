// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/topology.h"

#include <gtest/gtest.h>

#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

class TopologyTest : public testing_support::CpuPluginTest {};

TEST_F(TopologyTest, APluginWithoutTopologiesSaysSo) {
  const base::Problem problem = testing_support::problem_of(base::Code::E1505, [] {
    Topology(testing_support::cpu_plugin(), "v6e:2x2", {{"chips_per_host_bounds", std::vector<int64_t>{2, 2, 1}}});
  });
  EXPECT_NE(problem.got.find("UNIMPLEMENTED"), std::string::npos) << problem.got;
  EXPECT_NE(problem.got.find("v6e:2x2"), std::string::npos) << problem.got;
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
