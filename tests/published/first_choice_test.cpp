// SPDX-License-Identifier: Apache-2.0
// What a search answers for published configurations, on the number of chips they are published for: the published
// layout, or one that plans faster under the same model. It gets the model and the tokens of a step alone, and few
// tries, so that it must look at the right layouts first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>

#include "megacpp/hardware/fit/search.h"
#include "tests/published/planned_hardware.h"
#include "tests/published/published_layouts.h"

namespace megacpp::published {
namespace {

constexpr int64_t kFewTries = 8;

struct Configuration {
  const char* layout;
  const char* hardware;
};

void PrintTo(const Configuration& one, std::ostream* out) { *out << one.layout; }

const Configuration kConfigurations[] = {{"llama3_8b", "h100:8"},
                                         {"fsdp_64", "h100:64"},
                                         {"mixtral_ep_8_fsdp_8", "h100:64"},
                                         {"mixtral_ep_8_tp_2", "h100:32"},
                                         {"deepseek_ep_16_fsdp_4", "v6e:8x8"},
                                         {"jamba_ep_16_fsdp_4", "v6e:8x8"},
                                         {"nemotron_h_fsdp_64", "v6e:8x8"}};

/// Without its layout, and with recompute left to planning.
recipe::Recipe model_alone(const recipe::Recipe& published) {
  const recipe::Recipe defaults;
  recipe::Recipe recipe = published;
  recipe.layout = defaults.layout;
  recipe.train.recompute = defaults.train.recompute;
  return recipe;
}

/// With the level of recompute that is fastest: all of them fit there.
double published_seconds(const recipe::Recipe& recipe, const fit::Assumptions& assumptions) {
  double seconds = INFINITY;
  for (const char* level : {"none", "selective", "full"}) {
    const fit::Found found = fit::compile_candidate(recipe, {{"train.recompute", level}}, assumptions);
    EXPECT_TRUE(found.fit.fits()) << level;
    seconds = std::min(seconds, found.time.seconds());
  }
  return seconds;
}

class FirstChoiceTest : public testing::TestWithParam<Configuration> {};

TEST_P(FirstChoiceTest, IsThePublishedLayoutOrPlansFaster) {
  const recipe::Recipe published = published_recipe(published_layout(GetParam().layout));
  const recipe::Recipe recipe = model_alone(published);
  const fit::Assumptions assumptions = planned_hardware(GetParam().hardware, recipe);
  const fit::LayoutSearch search = fit::search_layouts(recipe, assumptions, {.tries = kFewTries, .with_auto = 0});
  ASSERT_TRUE(search.fits());
  EXPECT_LE(search.found.front().time.seconds(), published_seconds(published, assumptions))
      << search.found.front().layout;
}

INSTANTIATE_TEST_SUITE_P(Published, FirstChoiceTest, testing::ValuesIn(kConfigurations),
                         [](const auto& one) { return std::string(one.param.layout); });

// What the test above would say of a search that looks at one layout only: nobody hands the published one to it.
TEST(FirstChoiceTest, OneTryDoesNotFindThePublishedExperts) {
  const recipe::Recipe published = published_recipe(published_layout("mixtral_ep_8_fsdp_8"));
  const recipe::Recipe recipe = model_alone(published);
  const fit::Assumptions assumptions = planned_hardware("h100:64", recipe);
  const fit::LayoutSearch search = fit::search_layouts(recipe, assumptions, {.tries = 1, .with_auto = 0});
  ASSERT_EQ(search.found.size(), 1U);
  EXPECT_GT(search.found.front().time.seconds(), published_seconds(published, assumptions));
}

}  // namespace
}  // namespace megacpp::published
