// SPDX-License-Identifier: Apache-2.0
// An eighth rung is one file (steps.cpp) and one line (rung_list.inc): recipes, the ladder and its reports take it from
// there.
#include <gtest/gtest.h>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/ladder.h"
#include "megacpp/hardware/fit/rungs.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/program/recipe/schema.h"
#include "tests/support/errors.h"

namespace megacpp::fit {
namespace {

recipe::Recipe recipe_with(std::vector<std::string> settings) {
  settings.insert(settings.end(), {"train.sequence=96", "train.recompute=none"});
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
}

Estimate estimate_here(const recipe::Recipe& recipe, const Ceiling& ceiling = {}) {
  const int64_t chips = recipe::chips_of(recipe.layout);
  const hw::HostRates rates{.matrix_flops = 1e11, .bytes_per_second = 1e10, .cores = 2, .memory = int64_t{1} << 34};
  return make_estimate(
      recipe,
      {.slice = hw::parse_target("host:" + std::to_string(chips), {.host_rates = [&] { return rates; }}),
       .kernels = {.name = "any",
                   .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                   .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }},
       .limits = recipe::chip_limits(recipe.hardware, chips)},
      FitVerdict::close, ceiling);
}

TEST(RungTest, RecipesMayNameIt) {
  const recipe::Recipe recipe = recipe_with({"ladder.rungs=[batch, steps]"});
  EXPECT_EQ(recipe::parse(recipe::print(recipe), "printed"), recipe);
  EXPECT_EQ(recipe::Ladder{}.rungs.back(), "steps") << "the last by default";
  EXPECT_NE(recipe::key_table().find("features, topology, steps; [] = nothing"), std::string::npos);
  EXPECT_EQ(testing_support::error_of([] { recipe_with({"ladder.rungs=[step]"}); }).problem().next,
            "did you mean 'steps'?");
}

TEST(RungTest, TheLadderTakesIt) {
  const Estimate whole = estimate_here(recipe_with({}));
  const int64_t limit = whole.fit.worst().needed() - 1;
  const recipe::Recipe recipe = recipe_with({"ladder.rungs=[steps]", "hardware.limit=" + std::to_string(limit) + "B"});
  const LadderPath path = walk_ladder(estimate_here(recipe), estimate_here);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.found->recipe().train.sequence, 64);
  EXPECT_EQ(path.changes.at(0).key, "train.sequence");
  EXPECT_TRUE(path.changes_experiment) << "its record says so";
  EXPECT_EQ(path.attempts.at(0).name, "steps");
}

}  // namespace
}  // namespace megacpp::fit
