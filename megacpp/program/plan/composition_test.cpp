// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/composition.h"

#include <gtest/gtest.h>

#include "megacpp/program/plan/print.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

std::string text_of(const recipe::Recipe& recipe) {
  std::string text = "\n";
  for (const CompositionStep& step : composition(make_plan(recipe))) text += step.step + ": " + step.here + "\n";
  return text;
}

TEST(CompositionTest, OneChipHasEveryStepInOrder) {
  EXPECT_EQ(text_of(testing_support::hybrid_recipe()), R"(
stage cut: none
tensor parallel: none
recompute: none
compile: one program for one chip
ZeRO: none
expert parallel: none
optimizer: AdamW, clipped at norm 1
)");
}

TEST(CompositionTest, EveryStepSaysWhatItDoesHere) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = {.data_parallel = 2,
                   .expert_parallel = 2,
                   .context_parallel = 2,
                   .tensor_parallel = 2,
                   .pipeline_parallel = 2,
                   .zero = 3};
  recipe.train.micro_steps = 4;
  recipe.train.recompute['A'] = recipe::RecomputeLevel::selective;
  recipe.train.recompute['R'] = recipe::RecomputeLevel::full;
  EXPECT_EQ(text_of(recipe), R"(
stage cut: 2 stages x 1 chunks, cut by estimated cost, schedule 1f1b
tensor parallel: heads, inner widths and vocabulary over 2 chips; tokens between mixers over the same chips; sequences over 2 chips, attention by ring, early and late runs paired
recompute: A selective, R full
compile: one program, partitioned for each of 32 chips
ZeRO: weights, gradients and optimizer state over data+expert+context, of experts over data+context
expert parallel: 8 experts over 2 chips, tokens travel by alltoall
optimizer: AdamW, clipped at norm 1, every 4 micro-steps
)");
  EXPECT_EQ(layout_line(make_plan(recipe)),
            "policy spmd, data 2, expert 2, context 2, tensor 2 with sequence, pipeline 2, zero 3");
}

}  // namespace
}  // namespace megacpp::plan
