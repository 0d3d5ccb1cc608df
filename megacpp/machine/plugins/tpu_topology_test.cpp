// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/tpu_topology.h"

#include <gtest/gtest.h>

#include "megacpp/machine/plugins/flags.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::plugins {
namespace {

using Options = std::vector<std::pair<std::string, std::vector<int64_t>>>;

TpuTopology topology(const std::string& target) { return tpu_topology(hw::parse_target(target, {.places = {}})); }

TEST(TpuTopologyTest, ThePluginHasItsOwnNames) {
  EXPECT_EQ(topology("v6e:16x16").name, "v6e:16x16");
  EXPECT_EQ(topology("v5p:2x2x1").name, "v5:2x2x1");
  EXPECT_EQ(topology("7x:2x2x1").name, "tpu7x:2x2x1");
}

TEST(TpuTopologyTest, ThePluginIsToldOfRingsAndLoneChips) {
  EXPECT_EQ(topology("v6e:1x1").options, (Options{{"chips_per_host_bounds", {1, 1, 1}}}));
  for (const char* name : {"v6e:2x2", "v6e:2x4", "v6e:4x4", "v6e:8x8", "v5:2x2x1", "v5:2x4x4"})
    EXPECT_EQ(topology(name).options, Options{}) << name;
  EXPECT_EQ(topology("v6e:8x16").options, (Options{{"wrap", {0, 1, 0}}}));
  EXPECT_EQ(topology("v6e:16x16").options, (Options{{"wrap", {1, 1, 0}}}));
  EXPECT_EQ(topology("v5p:4x4x8").options, (Options{{"wrap", {1, 1, 1}}}));
}

TEST(TpuTopologyTest, OtherChipsAreNotCompiledForAheadOfTime) {
  const base::Problem problem = testing_support::problem_of(base::Code::E1506, [] { topology("h100:8"); });
  EXPECT_EQ(problem.where, "--target h100:8");
}

TEST(TpuTopologyTest, FlagsKnowTheGenerationOfEveryTpu) {
  for (const hw::ListedChip& listed : hw::all_chips({})) {
    const hw::Chip& chip = listed.chip.value();
    const bool is_tpu = chip.kind == hw::ChipKind::tpu;
    EXPECT_EQ(generation_of_topology(chip.plugin_name + ":").empty(), !is_tpu) << chip.name;
  }
}

}  // namespace
}  // namespace megacpp::runtime::plugins
