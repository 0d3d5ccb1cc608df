// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/tensor_split.h"

#include <gtest/gtest.h>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

using Products = std::vector<int64_t>;

recipe::Model model_with(int64_t kv_heads, int64_t groups) {
  recipe::Model model = testing_support::hybrid_recipe().model;
  model.config<blocks::Attention>() = {.heads = 24, .kv_heads = kv_heads, .head_dim = 8};
  model.config<blocks::Mamba>().heads = 24;
  model.config<blocks::Mamba>().groups = groups;
  model.config<blocks::Recurrent>().heads = 24;
  return model;
}

TEST(TensorSplitTest, StepsEndWhereSomeTensorCanBeSplitNoFurther) {
  EXPECT_EQ(step_products(model_with(24, 24), {.tensor_parallel = 8}), (Products{1, 8}));
  EXPECT_EQ(step_products(model_with(2, 24), {.tensor_parallel = 8}), (Products{1, 2, 8}));
  EXPECT_EQ(step_products(model_with(2, 4), {.tensor_parallel = 8}), (Products{1, 2, 4, 8}));
  EXPECT_EQ(step_products(model_with(1, 1), {.tensor_parallel = 8}), (Products{1, 8}));
  EXPECT_EQ(step_products(model_with(24, 24), {.tensor_parallel = 8, .expert_tensor_parallel = 2}),
            (Products{1, 4, 8}));
  EXPECT_EQ(step_products(model_with(24, 24), {}), (Products{1}));
}

TEST(TensorSplitTest, StepsMustDivideOneAnother) {
  EXPECT_TRUE(is_chain({1, 2, 4, 12}));
  EXPECT_FALSE(is_chain({1, 2, 3, 6}));
  EXPECT_FALSE(tensor_parallel_fits(model_with(2, 3), {.tensor_parallel = 6}));
  EXPECT_TRUE(tensor_parallel_fits(model_with(2, 2), {.tensor_parallel = 6}));
}

TEST(TensorSplitTest, SharedThingsMayBeFewerThanChipsOthersNot) {
  using How = blocks::Split::How;
  const auto can = [](int64_t count, How how) { return can_split({.count = count, .how = how}, 8); };
  EXPECT_TRUE(can(2, How::shared));
  EXPECT_TRUE(can(16, How::shared));
  EXPECT_FALSE(can(6, How::shared));
  EXPECT_FALSE(can(2, How::divided));
}

TEST(TensorSplitTest, FamiliesOutsideThePatternAskForNothing) {
  recipe::Model model = model_with(5, 7);
  EXPECT_FALSE(tensor_parallel_fits(model, {.tensor_parallel = 8}));
  model.pattern = "ER";
  EXPECT_TRUE(tensor_parallel_fits(model, {.tensor_parallel = 8}));
}

}  // namespace
}  // namespace megacpp::plan
