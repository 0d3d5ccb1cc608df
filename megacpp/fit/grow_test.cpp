// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/grow.h"

#include <gtest/gtest.h>

#include "megacpp/base/error.h"
#include "tests/support/paper_ground.h"

namespace megacpp::fit {
namespace {

using testing_support::paper_ground;
using testing_support::paper_recipe;

/// One multiple after the other, until it does not fit.
int64_t by_scan(const recipe::Recipe& recipe, const std::string& key, int64_t unit, const Ground& ground) {
  int64_t largest = 0;
  while (compile_candidate(recipe, {{key, std::to_string(largest + unit)}}, ground).fit.fits()) largest += unit;
  return largest;
}

TEST(GrowTest, TheLargestBatchIsThatOfALinearScan) {
  const recipe::Recipe recipe = paper_recipe({"layout.data_parallel=2"});
  const int64_t now = compile_candidate(recipe, {}, paper_ground("host:2")).needed();
  for (const int64_t limit : {now, now - 1, now + now / 3, now * 5 / 2}) {
    const Ground ground = paper_ground("host:2", limit);
    const Growth growth = grow(recipe, Grown::batch, ground);
    ASSERT_TRUE(growth.best.has_value());
    const Found& best = growth.tried[*growth.best];
    EXPECT_EQ(best.recipe.train.batch, by_scan(recipe, "train.batch", 2, ground));
    EXPECT_EQ(best.recipe.train.micro_steps, recipe.train.micro_steps);
    ASSERT_TRUE(growth.next.has_value());
    EXPECT_EQ(growth.tried[*growth.next].recipe.train.batch, best.recipe.train.batch + 2);
    EXPECT_FALSE(growth.tried[*growth.next].fit.fits());
  }
}

TEST(GrowTest, TheLongestSequenceIsThatOfALinearScan) {
  const recipe::Recipe recipe = paper_recipe({"layout.tensor_parallel=2"});
  const int64_t now = compile_candidate(recipe, {}, paper_ground("host:2")).needed();
  for (const int64_t limit : {now, now * 7 / 2}) {
    const Ground ground = paper_ground("host:2", limit);
    const Growth growth = grow(recipe, Grown::sequence, ground);
    ASSERT_TRUE(growth.best.has_value());
    EXPECT_EQ(growth.unit, 64);
    EXPECT_EQ(growth.tried[*growth.best].recipe.train.sequence, by_scan(recipe, "train.sequence", 64, ground));
  }
}

TEST(GrowTest, WhereNothingFitsTheSmallestIsTried) {
  const Growth growth = grow(paper_recipe(), Grown::batch, paper_ground("host:1", 4096));
  EXPECT_FALSE(growth.best.has_value());
  ASSERT_EQ(growth.tried.size(), 1U);
  EXPECT_EQ(growth.tried[0].recipe.train.batch, 1);
}

TEST(GrowTest, ALayoutThatDoesNotFillTheHardwareIsRefused) {
  EXPECT_THROW(grow(paper_recipe(), Grown::batch, paper_ground("host:4")), base::Error);
}

}  // namespace
}  // namespace megacpp::fit
