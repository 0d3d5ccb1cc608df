// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/policy.h"

#include <gtest/gtest.h>

namespace megacpp::plan {
namespace {

struct Case {
  recipe::Policy policy;
  int64_t zero;
  int64_t resolved;
  GatherUnit gathers;
};

TEST(PolicyTest, APolicyDecidesZeroUnlessGivenAndHowWeightsAreGathered) {
  const Case cases[] = {
      {recipe::Policy::spmd, -1, 1, GatherUnit::parameter},  {recipe::Policy::spmd, 3, 3, GatherUnit::parameter},
      {recipe::Policy::fsdp, -1, 3, GatherUnit::block},      {recipe::Policy::fsdp, 2, 2, GatherUnit::block},
      {recipe::Policy::megatron, -1, 1, GatherUnit::bucket}, {recipe::Policy::megatron, 0, 0, GatherUnit::bucket}};
  for (const Case& each : cases) {
    const recipe::Layout layout{.policy = each.policy, .zero = each.zero};
    EXPECT_EQ(gather_unit(each.policy), each.gathers) << base::text_of(each.policy);
    EXPECT_EQ(zero_level(layout), each.resolved) << base::text_of(each.policy);
  }
}

}  // namespace
}  // namespace megacpp::plan
