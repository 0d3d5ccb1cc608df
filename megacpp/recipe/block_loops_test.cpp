// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/block_loops.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megacpp/recipe/parse.h"

namespace megacpp::recipe {
namespace {

Recipe recipe_with(const std::vector<std::string>& settings) {
  Recipe recipe;
  apply_overrides(recipe, settings);
  return recipe;
}

TEST(BlockLoopsTest, BlocksThatRepeatAreLoopsUnlessTheRecipeUnrollsThem) {
  const std::string pattern = "model.pattern=AEME", depth = "model.depth=11";
  EXPECT_TRUE(has_block_loops(recipe_with({pattern, depth})));
  EXPECT_TRUE(has_block_loops(recipe_with({pattern, depth, "xla.loops=on"})));
  EXPECT_FALSE(has_block_loops(recipe_with({pattern, depth, "xla.loops=off"})));
  EXPECT_EQ(block_loops_text(recipe_with({pattern, depth})), "8 of 11 blocks in loops of 2");
  EXPECT_EQ(block_loops_text(recipe_with({pattern, depth, "xla.loops=off"})), "11 blocks unrolled");
}

TEST(BlockLoopsTest, WhereNothingRepeatsThereIsNoLoop) {
  for (const std::string loops : {"auto", "on", "off"}) {
    const Recipe recipe = recipe_with({"model.pattern=AEMR", "model.depth=4", "xla.loops=" + loops});
    EXPECT_FALSE(has_repeated_blocks(recipe.model));
    EXPECT_FALSE(has_block_loops(recipe)) << loops;
    EXPECT_EQ(block_loops_text(recipe), "4 blocks unrolled") << loops;
  }
}

}  // namespace
}  // namespace megacpp::recipe
