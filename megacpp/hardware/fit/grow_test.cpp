// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/grow.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "tests/support/assumptions.h"
#include "tests/support/reserving.h"

namespace megacpp::fit {
namespace {

using testing_support::test_assumptions;
using testing_support::test_recipe;

/// A TPU whose compiler leaves gaps.
Assumptions with_wide_gaps(int64_t limit = 0) {
  Assumptions assumptions = test_assumptions("v6e:2x2", limit);
  assumptions.reserve = testing_support::reserving({.least = 0.7, .most = 1.3, .is_asked_first = true});
  return assumptions;
}

/// Nothing is recomputed: growing is compared with a scan that plans every size.
recipe::Recipe keeping_recipe(const std::string& layout) {
  return test_recipe(
      {layout, "train.recompute.A=none", "train.recompute.M=none", "train.recompute.E=none", "train.recompute.R=none"});
}

/// One multiple after the other, until it does not fit.
int64_t by_scan(const recipe::Recipe& recipe, const std::string& key, int64_t unit, const Assumptions& assumptions) {
  int64_t largest = 0;
  while (compile_candidate(recipe, {{key, std::to_string(largest + unit)}}, assumptions).fit.fits()) largest += unit;
  return largest;
}

TEST(GrowTest, TheLargestBatchIsThatOfALinearScan) {
  const recipe::Recipe recipe = keeping_recipe("layout.data_parallel=2");
  const int64_t now = compile_candidate(recipe, {}, test_assumptions("host:2")).needed();
  for (const int64_t limit : {now, now - 1, now + now / 3, now * 5 / 2}) {
    const Assumptions assumptions = test_assumptions("host:2", limit);
    const Growth growth = grow(recipe, Grown::batch, assumptions);
    ASSERT_TRUE(growth.best.has_value());
    const Found& best = growth.tried[*growth.best];
    EXPECT_EQ(best.recipe.train.batch, by_scan(recipe, "train.batch", 2, assumptions));
    EXPECT_EQ(best.recipe.train.micro_steps, recipe.train.micro_steps);
    ASSERT_TRUE(growth.next.has_value());
    EXPECT_EQ(growth.tried[*growth.next].recipe.train.batch, best.recipe.train.batch + 2);
    EXPECT_FALSE(growth.tried[*growth.next].fit.fits());
  }
}

TEST(GrowTest, TheLongestSequenceIsThatOfALinearScan) {
  const recipe::Recipe recipe = keeping_recipe("layout.tensor_parallel=2");
  const int64_t now = compile_candidate(recipe, {}, test_assumptions("host:2")).needed();
  for (const int64_t limit : {now, now * 7 / 2}) {
    const Assumptions assumptions = test_assumptions("host:2", limit);
    const Growth growth = grow(recipe, Grown::sequence, assumptions);
    ASSERT_TRUE(growth.best.has_value());
    EXPECT_EQ(growth.unit, 64);
    EXPECT_EQ(growth.tried[*growth.best].recipe.train.sequence, by_scan(recipe, "train.sequence", 64, assumptions));
  }
}

// With the gaps that a compiler may leave a smaller batch fits than without.
TEST(GrowTest, TheLargestThatFitsAndTheLargestThatIsCloseAreTwo) {
  const recipe::Recipe recipe = keeping_recipe("layout.data_parallel=4");
  const int64_t now = compile_candidate(recipe, {}, with_wide_gaps()).fit.worst().reservation.most;
  const Growth growth = grow(recipe, Grown::batch, with_wide_gaps(now));
  EXPECT_EQ(growth.verdict(), FitVerdict::fits);
  ASSERT_TRUE(growth.best && growth.largest_close && growth.next);
  const auto batch_of = [&](size_t index) { return growth.tried[index].recipe.train.batch; };
  EXPECT_EQ(batch_of(*growth.best), recipe.train.batch);
  EXPECT_EQ(growth.tried[*growth.largest_close].fit.verdict(), FitVerdict::close);
  EXPECT_GT(batch_of(*growth.largest_close), batch_of(*growth.best));
  EXPECT_EQ(growth.tried[*growth.next].fit.verdict(), FitVerdict::does_not_fit);
  EXPECT_EQ(batch_of(*growth.next), batch_of(*growth.largest_close) + growth.unit);
}

// With nothing recomputed some batches are only close that fit with more: each is raised until it fits, so that
// verdicts worsen with the batch and bisecting them finds what a scan finds.
TEST(GrowTest, WithRecomputeLeftToPlanningTheLargestBatchIsThatOfAScanWithAllOfIt) {
  const recipe::Recipe recipe = test_recipe({"layout.data_parallel=4"});
  const recipe::Recipe full = test_recipe({"layout.data_parallel=4", "train.recompute=full"});
  const int64_t limit = compile_candidate(full, {{"train.batch", "24"}}, with_wide_gaps()).fit.worst().reservation.most;
  const Assumptions assumptions = with_wide_gaps(limit);
  const plan::Changes keeping = {{"train.batch", "12"}, {"train.recompute", "none"}};
  ASSERT_EQ(compile_candidate(recipe, keeping, assumptions).fit.verdict(), FitVerdict::close)
      << "else nothing is shown";
  const Growth growth = grow(recipe, Grown::batch, assumptions);
  EXPECT_EQ(growth.verdict(), FitVerdict::fits);
  ASSERT_TRUE(growth.best.has_value());
  const int64_t largest = by_scan(full, "train.batch", 4, assumptions);
  EXPECT_GE(largest, 24);
  EXPECT_EQ(growth.tried[*growth.best].recipe.train.batch, largest);
}

TEST(GrowTest, WhereNothingFitsTheSmallestIsTried) {
  const Growth growth = grow(test_recipe(), Grown::batch, test_assumptions("host:1", 4096));
  EXPECT_FALSE(growth.best.has_value());
  ASSERT_EQ(growth.tried.size(), 1U);
  EXPECT_EQ(growth.tried[0].recipe.train.batch, 1);
}

TEST(GrowTest, ALayoutThatDoesNotFillTheHardwareIsRefused) {
  EXPECT_THROW(grow(test_recipe(), Grown::batch, test_assumptions("host:4")), base::Error);
}

}  // namespace
}  // namespace megacpp::fit
