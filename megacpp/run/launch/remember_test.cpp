// SPDX-License-Identifier: Apache-2.0
// On TPUs a step in loops and an unrolled one say nothing of each other, whoever unrolled it.
#include "megacpp/run/launch/remember.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/run/launch/assumptions.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unrolled_blocks.h"

namespace megacpp::launch {
namespace {

class RememberMeasuredTest : public testing::Test {
 protected:
  using Lanes = std::vector<std::pair<std::string, std::string>>;

  /// As a launch plans it, by what the catalog has.
  fit::Estimate planned(std::vector<std::string> settings) const {
    settings.emplace_back("backend=xla");
    const recipe::Recipe recipe = testing_support::wide_activations_recipe(settings);
    UsersCatalog catalog({.file = file_.string()}, catalog::Access::read);
    return fit::make_estimate(recipe, assumptions_for(recipe, hw::parse_target("v6e:2x2"), catalog),
                              fit::FitVerdict::close);
  }

  /// A setting: less than a chip needs with the blocks of such a recipe in loops.
  std::string limit_below_loops(const std::vector<std::string>& settings) const {
    return "hardware.limit=" + std::to_string(planned(settings).fit.worst().reservation.least - 1);
  }

  /// As if a run of it took five times what was planned.
  void measure(const fit::Estimate& estimate) const {
    catalog::Catalog catalog = catalog::Catalog::open(file_);
    const ChipReport worst{.chip = 0, .memory = {.measured_peak_bytes = 5 * estimate.worst_memory().total_bytes}};
    remember_measured(catalog, estimate, 0, measured_of("run", estimate, worst, 5 * estimate.time.seconds()));
  }

  Lanes measured_lanes() const { return catalog::Catalog::open(file_).measured_lanes(); }

  static void expect_same(const fit::Estimate& after, const fit::Estimate& before) {
    EXPECT_EQ(after.correction.samples, 0u);
    EXPECT_EQ(after.time_correction.samples, 0u);
    EXPECT_EQ(after.fit.worst().needed(), before.fit.worst().needed());
    EXPECT_EQ(after.step_seconds(), before.step_seconds());
  }
  static void expect_corrected(const fit::Estimate& after, const fit::Estimate& before) {
    EXPECT_EQ(after.correction.samples, 1u);
    EXPECT_EQ(after.time_correction.samples, 1u);
    EXPECT_GT(after.fit.worst().needed(), before.fit.worst().needed());
    EXPECT_GT(after.step_seconds(), before.step_seconds());
  }

  const std::string by_plan_ = "xla.loops=auto", by_key_ = "xla.loops=off";
  const std::string other_ = "model.depth=14";  // plans are corrected by launches of others alone
  const testing_support::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "catalog.sqlite";
};

TEST_F(RememberMeasuredTest, AStepThatThePlanUnrolledTeachesUnrolledPlansAlone) {
  const fit::Estimate looped = planned({by_plan_}), unrolled = planned({by_key_});
  const std::string limit = limit_below_loops({by_plan_});
  ASSERT_TRUE(planned({limit}).is_unrolled());
  const fit::Estimate ran = planned({other_, limit_below_loops({other_})});
  ASSERT_TRUE(ran.is_unrolled());
  measure(ran);
  const std::string lane = "xla v6e placement=megacpp loops=off";
  EXPECT_EQ(measured_lanes(), (Lanes{{lane, catalog::kPeakBytes}, {lane, catalog::kStepSeconds}}));
  expect_same(planned({by_plan_}), looped);
  expect_corrected(planned({by_key_}), unrolled);
  EXPECT_FALSE(planned({limit}).is_unrolled()) << "unrolled blocks were measured to need more than there is";
}

TEST_F(RememberMeasuredTest, AStepInLoopsTeachesPlansWithLoopsAlone) {
  const fit::Estimate looped = planned({by_plan_}), by_key = planned({by_key_});
  const std::string limit = limit_below_loops({by_plan_});
  const fit::Estimate by_plan = planned({limit});
  ASSERT_TRUE(by_plan.is_unrolled());
  measure(planned({other_}));
  const std::string lane = "xla v6e placement=megacpp";
  EXPECT_EQ(measured_lanes(), (Lanes{{lane, catalog::kPeakBytes}, {lane, catalog::kStepSeconds}}));
  expect_corrected(planned({by_plan_}), looped);
  expect_same(planned({by_key_}), by_key);
  const fit::Estimate again = planned({limit});
  ASSERT_TRUE(again.is_unrolled());
  expect_same(again, by_plan);
  EXPECT_GT(again.loops->looped_bytes, by_plan.loops->looped_bytes) << "what loops would need is corrected";
}

// The user's key leads to the same lane as the plan.
TEST_F(RememberMeasuredTest, AStepThatTheUserUnrolledTeachesPlansThatUnroll) {
  const std::string limit = limit_below_loops({by_plan_});
  const fit::Estimate looped = planned({by_plan_});
  ASSERT_TRUE(planned({limit}).is_unrolled());
  measure(planned({other_, by_key_}));
  expect_same(planned({by_plan_}), looped);
  EXPECT_FALSE(planned({limit}).is_unrolled()) << "unrolled blocks were measured to need more than there is";
}

}  // namespace
}  // namespace megacpp::launch
