// SPDX-License-Identifier: Apache-2.0
// A fourth optimizer is one file (unit_steps.cpp) and one line (optimizer_list.inc): recipes, plans, reports and
// training on a mesh take it from there.
#include <gtest/gtest.h>

#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/program/recipe/schema.h"
#include "tests/parity/training_comparison.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

recipe::Recipe recipe_with(const std::string& words) {
  return recipe::parse(
      "model: {pattern: AE, depth: 4, hidden: 32, vocab: 256, attention: {heads: 4, kv_heads: 2, head_dim: 8},"
      " feed_forward: {intermediate: 48}}\n"
      "train: {batch: 4, sequence: 16, steps: 4, micro_steps: 2, threads: 2}\n"
      "optimizer: {name: unit_steps, warmup_steps: 2, lr: 0.001, clip: 0.5, eps: 1.0e-4, momentum: 0.9}\n",
      "fourth.yaml", overrides_of(words));
}

TEST(OptimizerTest, AFourthOptimizerTrainsOnAMeshAsOnOneChip) {
  for (const char* layout : {"data_parallel=2 tensor_parallel=2", "data_parallel=2 zero=3", "data_parallel=4 zero=1",
                             "pipeline_parallel=2", "context_parallel=2"})
    EXPECT_EQ(compare_with_one_chip(recipe_with(layout)).problems, "") << layout;
}

TEST(OptimizerTest, RecipesMayNameIt) {
  const recipe::Recipe recipe = recipe_with("");
  EXPECT_EQ(recipe::parse(recipe::print(recipe), "printed"), recipe);
  EXPECT_NE(recipe::key_table().find("unit_steps: decaying sum of gradients, divided by its size"), std::string::npos);
  EXPECT_EQ(error_of([] { recipe_with("optimizer.name=unit_step"); }).problem().next, "did you mean 'unit_steps'?");
}

}  // namespace
}  // namespace megacpp::testing_support
