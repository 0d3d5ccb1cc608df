// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/resolved_layout.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

static_assert(!std::is_convertible_v<recipe::Layout, ResolvedLayout>, "what was asked for is not what it became");
static_assert(!std::is_convertible_v<ResolvedLayout, recipe::Layout>);

TEST(ResolvedLayoutTest, NothingIsLeftOpen) {
  const recipe::Model model = testing_support::hybrid_recipe().model;
  const ResolvedLayout layout(
      model, {.policy = recipe::Policy::fsdp, .data_parallel = 8, .context_parallel = 2, .tensor_parallel = 2});
  EXPECT_EQ(layout.zero(), 3);
  EXPECT_EQ(layout->chips, 32);
  EXPECT_EQ(layout->expert_tensor_parallel, 2);
  EXPECT_EQ(layout->bucket_bytes, 160'000'000);
  EXPECT_TRUE(layout->sequence_parallel);
  EXPECT_TRUE(layout->load_balance);
}

TEST(ResolvedLayoutTest, FlagsWithoutEffectAreOff) {
  const ResolvedLayout layout(testing_support::hybrid_recipe().model, {});
  EXPECT_FALSE(layout->sequence_parallel);
  EXPECT_FALSE(layout->load_balance);
}

TEST(ResolvedLayoutTest, WhatItBecameIsAskedForAgain) {
  const recipe::Model model = testing_support::hybrid_recipe().model;
  const ResolvedLayout once(model, {.policy = recipe::Policy::megatron, .data_parallel = 4, .tensor_parallel = 2});
  EXPECT_EQ(ResolvedLayout(model, once.keys()).keys(), once.keys());
}

}  // namespace
}  // namespace megacpp::plan
