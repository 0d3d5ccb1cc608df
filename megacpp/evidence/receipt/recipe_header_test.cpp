// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/recipe_header.h"

#include <gtest/gtest.h>

#include <vector>

#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/recompute.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::receipt {
namespace {

recipe::Recipe recipe_of(const std::string& pattern) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.model.pattern = pattern;
  return recipe;
}

TEST(RecipeHeaderTest, TheFamilyIsThatOfTheBlocks) {
  EXPECT_EQ(recipe_header(recipe_of("AEMR")).model.family, "hybrid");
  EXPECT_EQ(recipe_header(recipe_of("AM")).model.family, "hybrid");
  EXPECT_EQ(recipe_header(recipe_of("AE")).model.family, "sparse");
  recipe::Recipe dense = recipe_of("AE");
  recipe::apply_overrides(dense, std::vector<std::string>{"model.feed_forward.experts=0"});
  EXPECT_EQ(recipe_header(dense).model.family, "dense");
}

TEST(RecipeHeaderTest, ModelAndBatchAreThoseOfTheRecipe) {
  recipe::Recipe recipe = recipe_of("AE");
  recipe.train.micro_steps = 3;
  const Header header = recipe_header(recipe);
  EXPECT_EQ(header.model.name, "hybrid");
  EXPECT_EQ(header.model.pattern, "AE");
  EXPECT_EQ(header.model.depth, 8);
  EXPECT_EQ(header.model.hidden, 64);
  EXPECT_EQ(header.model.vocab, 256);
  EXPECT_EQ(header.batch.batch, 16);
  EXPECT_EQ(header.batch.sequence, 64);
  EXPECT_EQ(header.batch.tokens, 16 * 64 * 3) << "of a step";
  EXPECT_EQ(header.program.backend, "cpu");
  EXPECT_EQ(header.program.optimizer, "adamw");
  EXPECT_TRUE(header.versions.code.empty()) << "no plan";
  EXPECT_FALSE(header.hardware.chips);
}

TEST(RecipeHeaderTest, WhatABackendDoesNotReadIsDecidedElsewhere) {
  recipe::Recipe recipe = recipe_of("AE");
  recipe.layout.prefetch = 3;
  EXPECT_EQ(recipe_header(recipe).program.overlap, "prefetch 3");
  EXPECT_EQ(recipe_header(recipe).program.buckets, "as the policy has them");
  recipe.layout.bucket_bytes = 40'000'000;
  EXPECT_EQ(recipe_header(recipe).program.buckets, "40000000 bytes");
}

TEST(RecipeHeaderTest, ALevelOfRecomputeThatPlanningChoseIsMarked) {
  recipe::Recipe requested = recipe_of("AE"), planned = requested;
  requested.train.recompute['A'] = recipe::RecomputeLevel::automatic;
  requested.train.recompute['E'] = recipe::RecomputeLevel::none;
  planned.train.recompute['A'] = recipe::RecomputeLevel::full;
  planned.train.recompute['E'] = recipe::RecomputeLevel::none;
  EXPECT_EQ(recompute_text(planned, requested), "A=auto:full E=none");
  EXPECT_EQ(recompute_text(requested, requested), "A=auto E=none") << "nothing was chosen yet";
  EXPECT_EQ(recompute_text(planned, planned), "A=full E=none");
}

}  // namespace
}  // namespace megacpp::receipt
