// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/quick_estimate.h"

#include <gtest/gtest.h>

#include <array>

#include "megacpp/hardware/fit/search.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

// Letters of very different cost, at depths that are a period, part of one, or end within one: on one chip an estimate
// is as good as the twins it is made of.
TEST(QuickEstimateTest, EveryLetterCountsAsOftenAsTheModelHasIt) {
  const Assumptions assumptions = testing_support::test_assumptions("host:1");
  base::ThreadPool pool(1);
  for (const char* pattern : {"AD", "DA", "ADDD"})
    for (const char* depth : {"1", "2", "3", "5", "9"}) {
      const recipe::Recipe recipe = testing_support::test_recipe(
          {std::string("model.pattern=") + pattern, std::string("model.depth=") + depth, "train.batch=1",
           "train.micro_steps=1", "model.letters.D.family=E", "model.letters.D.feed_forward.experts=0",
           "model.letters.D.feed_forward.intermediate=2048"});
      const LayoutChoice choice{.recompute = recipe::RecomputeLevel::none};
      const QuickEstimate estimate = QuickEstimator(recipe, assumptions, pool).estimates(choice)[0];
      const Found found = compile_candidate(recipe, changes_for(recipe, choice), assumptions);
      const double needed = static_cast<double>(found.needed());
      EXPECT_NEAR(estimate.bytes / needed, 1, 0.15) << pattern << " " << depth;
      EXPECT_NEAR(estimate.seconds / found.time.seconds(), 1, 0.15) << pattern << " " << depth;
    }
}

// Copies of weights in bf16 take more than the activations of one sequence, and are not there where blocks are computed
// again: what many sequences take must not be counted less for them.
TEST(QuickEstimateTest, ManySequencesTakeTheirBytesWhateverWeightsTake) {
  const Assumptions assumptions = testing_support::test_assumptions("host:1");
  base::ThreadPool pool(1);
  const recipe::Recipe recipe = testing_support::test_recipe({"model.hidden=128", "model.feed_forward.experts=0",
                                                              "model.feed_forward.intermediate=512", "train.batch=32",
                                                              "train.micro_steps=1", "train.precision=bf16"});
  LayoutChoice choice{.batch = 32};
  const std::array<QuickEstimate, 3> estimates = QuickEstimator(recipe, assumptions, pool).estimates(choice);
  for (size_t level = 0; level < estimates.size(); ++level) {
    choice.recompute = kRecomputeLevels[level];
    const Found found = compile_candidate(recipe, changes_for(recipe, choice), assumptions);
    EXPECT_NEAR(estimates[level].bytes / static_cast<double>(found.needed()), 1, 0.25)
        << base::text_of(*choice.recompute);
    EXPECT_NEAR(estimates[level].seconds / found.time.seconds(), 1, 0.25) << base::text_of(*choice.recompute);
  }
}

TEST(QuickEstimateTest, WithoutZeroEveryChipHoldsAndUpdatesAll) {
  const Assumptions assumptions = testing_support::test_assumptions("host:2");
  base::ThreadPool pool(1);
  const recipe::Recipe recipe = testing_support::test_recipe({"model.depth=2"});
  QuickEstimator estimator(recipe, assumptions, pool);
  const QuickEstimate without = estimator.estimates({.data = 2, .zero = 0, .batch = 8})[0],
                      shared = estimator.estimates({.data = 2, .zero = 1, .batch = 8})[0];
  EXPECT_GT(without.state, shared.state);
  EXPECT_GT(without.seconds, shared.seconds) << "as many bytes on the wire, and twice the update";
}

}  // namespace
}  // namespace megacpp::fit
