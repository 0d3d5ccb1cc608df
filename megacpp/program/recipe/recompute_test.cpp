// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/recompute.h"

#include <gtest/gtest.h>

#include "megacpp/program/blocks/block.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/program/recipe/schema.h"
#include "tests/support/errors.h"

namespace megacpp::recipe {
namespace {

TEST(RecomputeTest, EveryFamilyHasItsKey) {
  size_t in_schema = 0;
  for (const Key& key : keys()) in_schema += key.path.starts_with("train.recompute.");
  EXPECT_EQ(blocks::all_blocks().size(), in_schema);
  for (const blocks::BlockDef& def : blocks::all_blocks()) {
    const std::string path = recompute_key(def.letter);
    ASSERT_NE(find_key(path), nullptr) << path;
    Recipe recipe;
    EXPECT_EQ(value_text(member_of(*find_key(path), recipe)), "auto") << path;
    recipe.train.recompute[def.letter] = recipe::RecomputeLevel::full;
    EXPECT_EQ(value_text(member_of(*find_key(path), recipe)), "full") << path;
  }
}

TEST(RecomputeTest, OnlyLettersWithinTheDepthCount) {
  Model model;
  model.pattern = "RMA|E";
  model.depth = 3;
  const std::vector<char> letters = recompute_letters(model);
  EXPECT_EQ(std::string(letters.begin(), letters.end()), "AMR");
}

TEST(RecomputeTest, ALetterOfTheRecipeFollowsItsFamilyUntilItIsGiven) {
  Recipe recipe;
  recipe.model.letters['D'] = {.family = "E", .settings = {}};
  recipe.train.recompute['E'] = recipe::RecomputeLevel::selective;
  EXPECT_EQ(recompute_level(recipe, 'D'), recipe::RecomputeLevel::selective);
  recipe.train.recompute['D'] = recipe::RecomputeLevel::full;
  EXPECT_EQ(recompute_level(recipe, 'D'), recipe::RecomputeLevel::full);
  EXPECT_EQ(recompute_level(recipe, 'E'), recipe::RecomputeLevel::selective);
}

constexpr const char* kText =
    "model: {pattern: AD, depth: 2, hidden: 16, vocab: 256, attention: {heads: 4, kv_heads: 2, head_dim: 4}, "
    "letters: {D: {family: E, feed_forward: {intermediate: 32}}}}\n"
    "optimizer: {lr: 1.0e-3}\n"
    "train: {batch: 2, sequence: 16, steps: 1";

TEST(RecomputeTest, OneLevelStandsForAllLetters) {
  for (const char* level : {"auto", "none", "selective", "full"}) {
    for (const Recipe& recipe : {parse(std::string(kText) + ", recompute: " + level + "}", "r.yaml"),
                                 parse(std::string(kText) + ", recompute: {A: none, D: selective}}", "r.yaml",
                                       std::vector<std::string>{std::string("train.recompute=") + level})}) {
      for (const blocks::BlockDef& def : blocks::all_blocks())
        EXPECT_EQ(base::text_of(recompute_level(recipe, def.letter)), level);
      EXPECT_EQ(base::text_of(recompute_level(recipe, 'D')), level);
      EXPECT_EQ(parse(print(recipe), "printed"), recipe);
    }
  }
  const Recipe later =
      parse(std::string(kText) + ", recompute: full}", "r.yaml", std::vector<std::string>{"train.recompute.D=none"});
  EXPECT_EQ(recompute_level(later, 'A'), recipe::RecomputeLevel::full);
  EXPECT_EQ(recompute_level(later, 'D'), recipe::RecomputeLevel::none);
}

TEST(RecomputeTest, WhatIsNoLevelIsRefusedUnderTheKeyThatWasGiven) {
  const auto refused = [](const std::string& value, const std::vector<std::string>& settings = {}) {
    return testing_support::error_of(
        [&] { parse(std::string(kText) + ", recompute: " + value + "}", "r.yaml", settings); });
  };
  EXPECT_EQ(refused("fulll").code(), base::Code::E1003);
  EXPECT_EQ(refused("fulll").problem().where, "r.yaml:3 train.recompute");
  EXPECT_EQ(refused("fulll").problem().next, "did you mean 'full'?");
  EXPECT_EQ(refused("[full]").code(), base::Code::E1002);
  EXPECT_EQ(refused("auto", {"train.recompute="}).code(), base::Code::E1002);
  EXPECT_EQ(refused("auto", {"train.recompute=both"}).problem().where, "--set train.recompute");
}

}  // namespace
}  // namespace megacpp::recipe
