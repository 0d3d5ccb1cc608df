// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/recompute.h"

#include <gtest/gtest.h>

#include "megacpp/blocks/block.h"
#include "megacpp/recipe/schema.h"

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
    EXPECT_EQ(value_text(member_of(*find_key(path), recipe)), kAutoRecompute) << path;
    recipe.train.recompute[def.letter] = "full";
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
  recipe.train.recompute['E'] = "selective";
  EXPECT_EQ(recompute_level(recipe, 'D'), "selective");
  recipe.train.recompute['D'] = "full";
  EXPECT_EQ(recompute_level(recipe, 'D'), "full");
  EXPECT_EQ(recompute_level(recipe, 'E'), "selective");
}

}  // namespace
}  // namespace megacpp::recipe
