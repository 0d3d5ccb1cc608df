// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/planned_recipe.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

recipe::Recipe on_four_chips() {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = {.policy = recipe::Policy::fsdp, .data_parallel = 4};
  recipe.train.batch = 8;
  return recipe;
}

TEST(PlannedRecipeTest, KeepsWhatWasAskedForBesideWhatItBecame) {
  const PlannedRecipe planned(on_four_chips());
  EXPECT_EQ(planned.recipe(), on_four_chips());
  EXPECT_EQ(planned.plan().chips, 4);
  EXPECT_EQ(planned.plan().layout.zero(), 3);
  const recipe::Recipe resolved = planned.resolved();
  EXPECT_FALSE(resolved.layout.zero.is_open());
  EXPECT_EQ(PlannedRecipe(resolved).plan().layout.keys(), planned.plan().layout.keys()) << "it asks for the same";
}

TEST(PlannedRecipeTest, APlanHasAllThatAStepComputes) {
  recipe::Recipe recipe = on_four_chips();
  recipe.train.micro_steps = 3;
  recipe.train.precision = ir::DType::bf16;
  recipe.train.recompute['A'] = recipe::RecomputeLevel::full;
  const PlannedRecipe planned(recipe);
  const Training& training = planned.plan().training;
  EXPECT_EQ(planned.plan().model, recipe.model);
  EXPECT_EQ(training.batch, 8);
  EXPECT_EQ(training.sequence, recipe.train.sequence);
  EXPECT_EQ(training.micro_steps, 3);
  EXPECT_EQ(training.precision, ir::DType::bf16);
  EXPECT_EQ(training.recompute.at('A'), recipe::RecomputeLevel::full);
  EXPECT_EQ(training.recompute.at('E'), recipe::RecomputeLevel::automatic);
}

TEST(PlannedRecipeTest, LettersOfTheRecipesOwnRecomputeAsTheirFamilyDoes) {
  recipe::Recipe recipe = on_four_chips();
  recipe.model.pattern = "AX";
  recipe.model.letters = {{'X', {.family = "A", .settings = {}}}};
  recipe.model.depth = 2;
  recipe.train.recompute['A'] = recipe::RecomputeLevel::selective;
  EXPECT_EQ(PlannedRecipe(recipe).plan().training.recompute,
            (std::map<char, recipe::RecomputeLevel>{{'A', recipe::RecomputeLevel::selective},
                                                    {'X', recipe::RecomputeLevel::selective}}));
}

TEST(PlannedRecipeTest, SectionsThatNoPlanDependsOnAreSetBesideIt) {
  PlannedRecipe planned(on_four_chips());
  planned.set_xla({.loops = recipe::XlaLoops::off});
  planned.set_hardware({.target = "v6e:4"});
  EXPECT_EQ(planned.recipe().xla.loops, recipe::XlaLoops::off);
  EXPECT_EQ(planned.recipe().hardware.target, "v6e:4");
  EXPECT_EQ(planned.plan().chips, 4);
}

TEST(ChangedPlanTest, IsOfTheRecipeWithTheChangesOrOfNone) {
  const recipe::Recipe recipe = on_four_chips();
  const std::optional<Plan> two = changed_plan(recipe, {"layout.data_parallel=2"});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->chips, 2);
  EXPECT_FALSE(changed_plan(recipe, {"layout.data_parallel=16"})) << "which a batch of 8 has no parts for";
  testing_support::problem_of(base::Code::E1001, [&] { changed_plan(recipe, {"layout.dta_parallel=2"}); });
}

}  // namespace
}  // namespace megacpp::plan
