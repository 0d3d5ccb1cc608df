// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/parameter_table.h"

#include <gtest/gtest.h>

#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

using blocks::Dim;
using blocks::Parameter;

// Two blocks and what stands around them; hidden 64, 8 query heads, 4 KV heads of 8.
const std::vector<Parameter> kParameters = {
    {"embed.weight", {256, 64}, {Dim::vocab, Dim::whole}, {}},
    {"block00.A.norm.weight", {64}, {Dim::whole}, {}},
    {"block00.A.wq", {64, 64}, {Dim::whole, Dim::heads}, {}},
    {"block00.A.wk", {64, 32}, {Dim::whole, Dim::kv_heads}, {}},
    {"block01.A.norm.weight", {64}, {Dim::whole}, {}},
    {"block01.A.wq", {64, 64}, {Dim::whole, Dim::heads}, {}},
    {"block01.A.wk", {64, 32}, {Dim::whole, Dim::kv_heads}, {}},
    {"block02.E.expert_bias", {8}, {Dim::whole}, {}, false, false},
};

Plan plan_of(const recipe::Layout& layout) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = layout;
  return make_plan(recipe);
}

TEST(ParameterTableTest, EqualBlocksFoldIntoOneRow) {
  const std::vector<ParameterRow> rows = parameter_table(plan_of({.tensor_parallel = 4}), kParameters);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1].name, "block*.A.norm.weight");
  EXPECT_TRUE(rows[1].replicated);
  EXPECT_EQ(rows[1].stored_bytes, 2 * 64 * 4);
  EXPECT_EQ(rows[2].name, "block*.A.wq");
  EXPECT_EQ(rows[2].count, 2);
  EXPECT_FALSE(rows[2].replicated);
  EXPECT_EQ(rows[2].local, (ir::Shape{64, 16}));
  EXPECT_EQ(rows[2].stored, "-,model");
  EXPECT_EQ(rows[2].why, "column-parallel over model: query heads");
  EXPECT_EQ(rows[3].local, (ir::Shape{64, 8}));
  EXPECT_EQ(rows[4].name, "block*.E.expert_bias");
  EXPECT_EQ(rows[4].optimizer, "");
}

TEST(ParameterTableTest, ParametersOfAnotherShapeStayApart) {
  std::vector<Parameter> parameters = kParameters;
  parameters[5].shape = {64, 128};
  EXPECT_EQ(parameter_table(plan_of({}), parameters).size(), 6u);
}

TEST(ParameterTableTest, ZeroSplitsStateStepByStep) {
  const int64_t elements = 256 * 64 + 2 * (64 + 64 * 64 + 64 * 32), bias = 8 * 4;
  for (const int64_t zero : {0, 1, 2, 3}) {
    const StateBytes bytes = state_bytes(plan_of({.data_parallel = 4, .zero = zero}), kParameters);
    EXPECT_EQ(bytes.weights, bias + elements * 4 / (zero >= 3 ? 4 : 1)) << zero;
    EXPECT_EQ(bytes.replicated, zero >= 3 ? bias : bytes.weights) << zero;
    EXPECT_EQ(bytes.gradients, elements * 4 / (zero >= 2 ? 4 : 1)) << zero;
    EXPECT_EQ(bytes.optimizer, elements * 8 / (zero >= 1 ? 4 : 1)) << zero;
    EXPECT_EQ(bytes.kept, 0) << zero;
  }
  const Plan whole = plan_of({.data_parallel = 4, .zero = 3, .reshard_after_forward = "false"});
  EXPECT_EQ(state_bytes(whole, kParameters).kept, elements * 4);
}

}  // namespace
}  // namespace megacpp::plan
