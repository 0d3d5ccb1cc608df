// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/run_request.h"

#include <gtest/gtest.h>

namespace megacpp::recipe {
namespace {

Recipe repeating() {
  Recipe recipe;
  recipe.model.pattern = "AE";
  recipe.model.depth = 6;
  return recipe;
}

TEST(RunRequestTest, HasWhatTheRecipeSaysOfARun) {
  Recipe recipe = repeating();
  recipe.layout.data_parallel = 2;
  recipe.train.threads = 3;
  recipe.train.wait_limit = 7;
  recipe.hardware.target = "v6e:2x2";
  recipe.xla.plugin = "tpu";
  const RunRequest request = run_request(recipe);
  EXPECT_EQ(request.chips, 2);
  EXPECT_EQ(request.threads, 3);
  EXPECT_EQ(request.wait_limit, std::chrono::seconds(7));
  EXPECT_EQ(request.hardware, recipe.hardware);
  EXPECT_EQ(request.xla, recipe.xla);
}

TEST(RunRequestTest, SaysWhetherBlocksAreInLoops) {
  Recipe recipe = repeating();
  EXPECT_TRUE(run_request(recipe).has_repeated_blocks);
  EXPECT_TRUE(run_request(recipe).has_block_loops);
  EXPECT_EQ(run_request(recipe).blocks_text, "6 of 6 blocks in loops of 3");
  recipe.xla.loops = XlaLoops::off;
  EXPECT_TRUE(run_request(recipe).has_repeated_blocks);
  EXPECT_FALSE(run_request(recipe).has_block_loops);
  recipe.model.depth = 2;
  EXPECT_FALSE(run_request(recipe).has_repeated_blocks);
}

TEST(RunRequestTest, ARecipeWithoutAModelAsksForNoBlocks) {
  EXPECT_FALSE(run_request({}).has_repeated_blocks);
  EXPECT_EQ(run_request({}).blocks_text, "");
}

}  // namespace
}  // namespace megacpp::recipe
