// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/policy.h"

#include <gtest/gtest.h>

namespace megacpp::plan {
namespace {

struct Case {
  const char* policy;
  int64_t zero;
  int64_t resolved;
  GatherUnit gathers;
};

TEST(PolicyTest, APolicyDecidesZeroUnlessGivenAndHowWeightsAreGathered) {
  const Case cases[] = {{"spmd", -1, 1, GatherUnit::parameter},  {"spmd", 3, 3, GatherUnit::parameter},
                        {"fsdp", -1, 3, GatherUnit::block},      {"fsdp", 2, 2, GatherUnit::block},
                        {"megatron", -1, 1, GatherUnit::bucket}, {"megatron", 0, 0, GatherUnit::bucket}};
  for (const Case& each : cases) {
    recipe::Layout layout{.policy = each.policy, .zero = each.zero};
    EXPECT_EQ(apply_policy(layout), each.gathers) << each.policy;
    EXPECT_EQ(layout.zero, each.resolved) << each.policy;
    recipe::Layout again = layout;
    apply_policy(again);
    EXPECT_EQ(again, layout) << "a resolved layout stays as it is";
  }
}

}  // namespace
}  // namespace megacpp::plan
