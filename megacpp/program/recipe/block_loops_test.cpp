// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/block_loops.h"

#include <gtest/gtest.h>

#include <vector>

#include "megacpp/program/recipe/parse.h"

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

TEST(BlockLoopsTest, UnlessARecipeSaysOtherwiseGpusGetThemUnrolled) {
  const auto has_loops = [](const std::string& plugin, const std::string& loops) {
    return has_block_loops(
        recipe_with({"model.pattern=AE", "model.depth=4", "xla.plugin=" + plugin, "xla.loops=" + loops}));
  };
  for (const std::string gpu : {"cuda", "/opt/jax_plugins/xla_cuda13/xla_cuda_plugin.so", "/gpu/pjrt_gpu.so"}) {
    EXPECT_FALSE(has_loops(gpu, "auto")) << gpu;
    EXPECT_TRUE(has_loops(gpu, "on")) << gpu;
    EXPECT_FALSE(has_loops(gpu, "off")) << gpu;
  }
  for (const std::string other : {"cpu", "tpu", "/opt/cuda/libtpu.so", "/opt/libtpu_no_gpu.so"})
    EXPECT_TRUE(has_loops(other, "auto")) << other;
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
