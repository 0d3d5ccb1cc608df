// SPDX-License-Identifier: Apache-2.0
// None of the published layouts may be refused on the hardware that it is published for: not by a gate, nor because a
// tensor would have to be gathered that nobody asked for, nor by what runs there.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "megacpp/hardware/fit/estimate.h"
#include "tests/published/planned_hardware.h"
#include "tests/published/published_layouts.h"

namespace megacpp::published {
namespace {

class PublishedLayoutsTest : public testing::TestWithParam<PublishedLayout> {};

TEST_P(PublishedLayoutsTest, PlansOnItsHardware) {
  const recipe::Recipe recipe = published_recipe(GetParam());
  const fit::Assumptions assumptions = planned_hardware(GetParam().hardware, recipe);
  fit::Estimate estimate;
  ASSERT_NO_THROW(estimate = fit::make_estimate(recipe, assumptions));
  EXPECT_GT(estimate.time.seconds(), 0);
}

INSTANTIATE_TEST_SUITE_P(Published, PublishedLayoutsTest, testing::ValuesIn(published_layouts()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(PublishedLayoutsTest, TwentyAndMoreHaveASource) {
  const auto sourced = std::ranges::count_if(
      published_layouts(), [](const PublishedLayout& row) { return std::string_view(row.source) != "usual"; });
  EXPECT_GE(sourced, 20);
}

}  // namespace
}  // namespace megacpp::published
