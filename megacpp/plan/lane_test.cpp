// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/lane.h"

#include <gtest/gtest.h>

namespace megacpp::plan {
namespace {

struct Case {
  const char* lane;
  int64_t zero;
  int64_t resolved;
  GatherUnit gathers;
};

TEST(LaneTest, ALaneDecidesZeroUnlessGivenAndHowWeightsAreGathered) {
  const Case cases[] = {{"spmd", -1, 1, GatherUnit::parameter},  {"spmd", 3, 3, GatherUnit::parameter},
                        {"fsdp", -1, 3, GatherUnit::block},      {"fsdp", 2, 2, GatherUnit::block},
                        {"megatron", -1, 1, GatherUnit::bucket}, {"megatron", 0, 0, GatherUnit::bucket}};
  for (const Case& each : cases) {
    recipe::Layout layout{.lane = each.lane, .zero = each.zero};
    EXPECT_EQ(apply_lane(layout), each.gathers) << each.lane;
    EXPECT_EQ(layout.zero, each.resolved) << each.lane;
    recipe::Layout again = layout;
    apply_lane(again);
    EXPECT_EQ(again, layout) << "a resolved layout stays as it is";
  }
}

}  // namespace
}  // namespace megacpp::plan
