// SPDX-License-Identifier: Apache-2.0
// Models of full size on the slices and clusters they are trained on: that their layouts plan, and that a search finds
// them or better ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "megacpp/hardware/fit/search.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/published/planned_hardware.h"
#include "tests/published/published_layouts.h"

namespace megacpp::published {
namespace {

/// Like Llama 2 7B, a thousand sequences of 4096 tokens a step.
recipe::Recipe seven_billion() {
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/bench/recipes/llama-7b.yaml",
                      std::vector<std::string>{"train.batch=1024"});
}

bool is_fsdp_over_64(const fit::Found& found) {
  const recipe::Layout& layout = found.recipe.layout;
  return layout.data_parallel == 64 && layout.zero == 3;
}

/// As it is published for a step of 1024 sequences.
fit::Found fsdp_over_64(const recipe::Recipe& recipe, const fit::Assumptions& assumptions) {
  const plan::Changes changes = {{"layout.data_parallel", "64"},
                                 {"layout.zero", "3"},
                                 {"train.batch", "128"},
                                 {"train.micro_steps", "8"},
                                 {"train.recompute", "selective"}};
  return fit::compile_candidate(recipe, changes, assumptions);
}

/// Of what is no less sure to fit.
double fastest_seconds(const fit::LayoutSearch& search, fit::FitVerdict verdict) {
  double seconds = INFINITY;
  for (const fit::Found& one : search.found)
    if (one.fit.verdict() <= verdict) seconds = std::min(seconds, one.time.seconds());
  return seconds;
}

TEST(FullSizeTest, SevenBillionOn64TpusAreNoSlowerThanFsdpAsItIsPublished) {
  const recipe::Recipe recipe = seven_billion();
  const fit::Assumptions assumptions = planned_hardware("v6e:8x8", recipe);
  const fit::Found published = fsdp_over_64(recipe, assumptions);
  ASSERT_TRUE(published.fit.may_fit());
  const fit::LayoutSearch search = fit::search_layouts(recipe, assumptions, {.threads = runtime::available_threads()});
  ASSERT_TRUE(search.fits());
  EXPECT_TRUE(is_fsdp_over_64(search.found.front())) << search.found.front().layout;
  EXPECT_LE(fastest_seconds(search, published.fit.verdict()), published.time.seconds());
  for (const fit::Found& one : search.found) EXPECT_EQ(one.recipe.layout.pipeline_parallel, 1) << one.layout;
}

// What is promised is what steps reach, not the roofline: one H200 was measured at 58 % with a dense model, whose
// products are smaller. FSDP as people run it is a choice of the search, so nothing slower may come first.
TEST(FullSizeTest, SevenBillionOn64GpusAreNoSlowerThanPlainFsdpAndPromiseWhatStepsReach) {
  const recipe::Recipe recipe = seven_billion();
  const fit::Assumptions assumptions = planned_hardware("h100:64", recipe);
  const fit::Found plain = fsdp_over_64(recipe, assumptions);
  ASSERT_TRUE(plain.fit.fits());
  EXPECT_LT(plain.time.mfu, 0.6);
  const fit::LayoutSearch search = fit::search_layouts(recipe, assumptions, {.threads = runtime::available_threads()});
  ASSERT_TRUE(search.fits());
  const fit::Found& first = search.found.front();
  EXPECT_TRUE(is_fsdp_over_64(first)) << first.layout;
  EXPECT_LE(first.time.seconds(), plain.time.seconds());
  EXPECT_FALSE(first.time.is_limit);
  EXPECT_LT(first.time.mfu, 0.65) << first.layout;
}

TEST(FullSizeTest, PlainFsdpOver64GpusIsAmongWhatIsCompiled) {
  const recipe::Recipe recipe = seven_billion();
  const fit::LayoutSearch search =
      fit::search_layouts(recipe, planned_hardware("h100:64", recipe), {.tries = 4, .with_auto = 0});
  EXPECT_TRUE(std::ranges::any_of(search.found, is_fsdp_over_64));
}

// 64 blocks: experts over 16 chips, and all 64 hold parts of everything.
TEST(FullSizeTest, AHybridOf49BillionPlansWithExpertsOver16ChipsAndFsdp) {
  recipe::Recipe recipe = published_recipe(published_layout("jamba_ep_16_fsdp_4"));
  recipe.model.depth = 64;
  const fit::Found found = fit::compile_candidate(recipe, {}, planned_hardware("v6e:8x8", recipe));
  EXPECT_TRUE(found.fit.may_fit()) << fit::needed_text(found.fit.worst());
  EXPECT_EQ(found.recipe.layout.expert_parallel, 16);
}

}  // namespace
}  // namespace megacpp::published
