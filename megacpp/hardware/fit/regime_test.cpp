// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/regime.h"

#include <gtest/gtest.h>

namespace megacpp::fit {
namespace {

std::string text(const StepTime& time, const RegimeFacts& facts = {}) { return to_text(regime_of(time, facts)); }

TEST(RegimeTest, TheLargestPartOfTheStepDecides) {
  EXPECT_EQ(text({.compute = 6, .memory = 4}), "enough work (arithmetic: 60% of the step)");
  EXPECT_EQ(text({.compute = 1, .memory = 3}), "memory or context (memory: 75% of the step)");
  EXPECT_EQ(text({.compute = 25, .memory = 15, .other = 60}), "host or slower chips (other: 60% of the step)");
  EXPECT_EQ(text({.compute = 5, .other = 5}), "enough work (arithmetic: 50% of the step)")
      << "of equal parts the first";
  EXPECT_EQ(text({.compute = 1, .memory = 1, .exposed = 2}), "communication (links: 50% of the step)");
  EXPECT_EQ(text({.compute = 1, .exposed = 1, .bubble = 2}), "communication (pipeline bubble: 50% of the step)");
}

TEST(RegimeTest, ARunThatMeasuredNothingSaysSo) {
  EXPECT_EQ(to_text(regime_of(std::nullopt, {})), "not measured (nothing says where the time of a step went)");
  EXPECT_EQ(to_text(regime_of(std::nullopt, {.unmeasured = "one step"})), "not measured (one step)");
  EXPECT_EQ(regime_of(std::nullopt, {.late_compiles = 1}).kind, RegimeKind::unstable) << "what is known still counts";
}

TEST(RegimeTest, AProgramThatIsNotWhatItShouldBeComesFirst) {
  const StepTime busy{.compute = 1};
  EXPECT_EQ(text(busy, {.fallbacks = 1, .fits = false}), "unstable compile or fallback (1 fallback)");
  EXPECT_EQ(text(busy, {.fallbacks = 2, .late_compiles = 3}), "unstable compile or fallback (3 compiles after step 0)");
  EXPECT_EQ(text(busy, {.late_cache_hits = 1}), "unstable compile or fallback (1 program from the cache after step 0)");
  EXPECT_EQ(text(busy, {.late_compiles = 1, .late_cache_hits = 2}),
            "unstable compile or fallback (1 compile and 2 programs from the cache after step 0)");
}

TEST(RegimeTest, WhatMemoryHeldBackIsLimitedByIt) {
  const StepTime busy{.compute = 1};
  EXPECT_EQ(text(busy, {.fits = false}), "memory or context (it does not fit)");
  EXPECT_EQ(text(busy, {.was_shrunk = true}), "memory or context (the requested recipe did not fit)");
}

TEST(RegimeTest, APlanIsJudgedByItsFallbacksAndItsRoom) {
  Estimate estimate;
  estimate.time.compute = 1;
  estimate.fit.groups = {{.reservation = {.least = 10, .expected = 10, .most = 10}, .limit = {.bytes = 10}}};
  EXPECT_EQ(regime_of(estimate).kind, RegimeKind::enough_work);
  estimate.fit.groups[0].limit.bytes = 9;
  EXPECT_EQ(regime_of(estimate).kind, RegimeKind::memory_or_context);
  estimate.compiled.fallbacks.push_back({.op = "attention", .scope = "block00.A", .reason = "no kernel"});
  EXPECT_EQ(regime_of(estimate).kind, RegimeKind::unstable);
}

}  // namespace
}  // namespace megacpp::fit
