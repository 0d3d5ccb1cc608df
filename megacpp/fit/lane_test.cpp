// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/lane.h"

#include <gtest/gtest.h>

namespace megacpp::fit {
namespace {

TEST(LaneTest, IsTheBackendAndTheChip) {
  const hw::TargetOptions here{.host_rates = [] {
    return hw::HostRates{.matrix_flops = 1e9, .bytes_per_second = 1e9, .cores = 2, .memory = 1 << 30};
  }};
  EXPECT_EQ(lane_name(hw::parse_target("v6e:2x2"), "cpu"), "xla v6e");
  EXPECT_EQ(lane_name(hw::parse_target("v6e:16x16"), "xla"), "xla v6e");
  EXPECT_EQ(lane_name(hw::parse_target("h100:8"), "cpu"), "cuda h100");
  EXPECT_EQ(lane_name(hw::parse_target("h100:8"), "xla"), "xla h100");
  EXPECT_EQ(lane_name(hw::parse_target("host:2", here), "cpu"), "cpu host");
  EXPECT_EQ(lane_name(hw::parse_target("host:2", here), "xla"), "xla host");
}

TEST(LaneTest, OnlyXlaRunsOnTpus) {
  EXPECT_EQ(backend_on(hw::parse_target("v6e:2x2"), "cpu"), "xla");
  EXPECT_EQ(backend_on(hw::parse_target("h100:8"), "cpu"), "cpu");
  EXPECT_EQ(backend_on(hw::parse_target("h100:8"), "xla"), "xla");
}

TEST(LaneTest, StagesHaveProgramsOfTheirOwnWhereXlaDoesNotRun) {
  EXPECT_TRUE(runs_pipelines(hw::parse_target("h100:8"), "cpu"));
  EXPECT_FALSE(runs_pipelines(hw::parse_target("h100:8"), "xla"));
  const base::Decision on_tpu = runs_pipelines(hw::parse_target("v6e:2x2"), "cpu");
  EXPECT_FALSE(on_tpu);
  EXPECT_NE(on_tpu.reason().find("pipeline"), std::string::npos);
}

}  // namespace
}  // namespace megacpp::fit
