// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/plugins/tpu_target.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace megacpp::runtime::plugins {
namespace {

using base::Code;
using testing_support::problem_of;
using Options = std::vector<std::pair<std::string, std::vector<int64_t>>>;

TEST(TpuTargetTest, ASliceIsReadFromItsName) {
  const TpuTarget pod = read_tpu_target("v6e:16x16");
  EXPECT_EQ(pod.generation, "v6e");
  EXPECT_EQ(pod.chips(), 256);
  EXPECT_EQ(read_tpu_target("v5:4x4x8").chips(), 128);
  EXPECT_EQ(read_tpu_target("v5:4x4x8").generation, "v5p");
  EXPECT_EQ(pod.devices(), 256);
  EXPECT_EQ(read_tpu_target("tpu7x:2x2x1").generation, "v7x");
  EXPECT_EQ(read_tpu_target("tpu7x:2x2x1").devices(), 8);
}

TEST(TpuTargetTest, ThePluginIsToldOfRingsAndLoneChips) {
  EXPECT_EQ(read_tpu_target("v6e:1x1").options(), (Options{{"chips_per_host_bounds", {1, 1, 1}}}));
  for (const char* name : {"v6e:2x2", "v6e:2x4", "v6e:4x4", "v6e:8x8", "v5:2x2x1"})
    EXPECT_EQ(read_tpu_target(name).options(), Options{}) << name;
  EXPECT_EQ(read_tpu_target("v6e:8x16").options(), (Options{{"wrap", {0, 1, 0}}}));
  EXPECT_EQ(read_tpu_target("v6e:16x16").options(), (Options{{"wrap", {1, 1, 0}}}));
}

TEST(TpuTargetTest, WhatIsNoSliceIsRefusedWithTheNearest) {
  EXPECT_EQ(problem_of(Code::E1506, [] { read_tpu_target("v6:4x4"); }).next, "did you mean 'v6e'?");
  for (const char* name : {"v6e", "v6e:", "v6e:4x", "v6e:4x4x4x4", "v6e:4X4", "v6e:-2x2", "v6e:0x4", "h100:8"})
    problem_of(Code::E1506, [&] { read_tpu_target(name); });
  EXPECT_FALSE(names_tpu("h100:8"));
  EXPECT_TRUE(names_tpu("v6e:odd"));
}

TEST(TpuTargetTest, EveryGenerationOfFlagsHasItsPeaks) {
  for (const char* name : {"v5e:2x2", "v5:2x2x1", "v6e:2x2", "tpu7x:2x2x1"}) {
    const TpuPeaks* peaks = peaks_of(read_tpu_target(name).generation);
    ASSERT_NE(peaks, nullptr) << name;
    EXPECT_GT(peaks->flops / peaks->bytes, 100) << name;  // all can do more work than they can read
  }
  EXPECT_EQ(peaks_of("v2"), nullptr);
}

}  // namespace
}  // namespace megacpp::runtime::plugins
