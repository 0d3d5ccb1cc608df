// SPDX-License-Identifier: Apache-2.0
// A fifth family is one file (gated_unit.cpp) and one line (block_list.inc): recipes, plans, gates, recompute and
// training on a mesh take it from there.
#include <gtest/gtest.h>

#include "megacpp/hardware/fit/signature.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/program/recipe/schema.h"
#include "tests/parity/training_comparison.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

constexpr const char* kRecipe = R"(
model:
  pattern: AUEV
  depth: 4
  hidden: 32
  vocab: 256
  attention: {heads: 4, kv_heads: 2, head_dim: 8}
  feed_forward: {intermediate: 48}
  gated_unit: {units: 4}
  letters:
    V: {family: U, gated_unit: {units: 6, unit_width: 2}}
train: {batch: 4, sequence: 16, steps: 4, micro_steps: 2, threads: 2}
optimizer: {warmup_steps: 2, lr: 0.001, clip: 0.5, eps: 1.0e-6}
)";

recipe::Recipe recipe_with(const std::string& words) {
  return recipe::parse(kRecipe, "fifth.yaml", overrides_of(words));
}

TEST(BlockFamilyTest, AFifthFamilyTrainsOnAMeshAsOnOneChip) {
  for (const char* layout : {"data_parallel=2 tensor_parallel=2", "data_parallel=2 tensor_parallel=2 zero=3",
                             "context_parallel=2 tensor_parallel=2 train.recompute.U=full", "pipeline_parallel=2"})
    EXPECT_EQ(compare_with_one_chip(recipe_with(layout)).problems, "") << layout;
}

TEST(BlockFamilyTest, ItsSettingsAreKeysOfTheRecipe) {
  const recipe::Recipe recipe = recipe_with("model.gated_unit.units=8");
  EXPECT_EQ(recipe::parse(recipe::print(recipe), "printed"), recipe);
  EXPECT_NE(recipe::key_table().find("| `model.gated_unit.units` | an integer | required |"), std::string::npos);
  EXPECT_NE(recipe::key_table().find("| `train.recompute.U` |"), std::string::npos);
  EXPECT_EQ(error_of([] { recipe_with("model.gated_unit.unitz=8"); }).problem().next,
            "did you mean 'model.gated_unit.units'?");
  EXPECT_EQ(error_of([] { recipe_with("model.gated_unit.unit_width=3"); }).code(), base::Code::E1005);
}

TEST(BlockFamilyTest, GatesAndSignaturesKnowIt) {
  const base::Error error = error_of([] { plan::make_plan(recipe_with("tensor_parallel=4")); });
  EXPECT_EQ(error.code(), base::Code::E1402);
  EXPECT_EQ(error.problem().wanted, "a divisor of 6: model.letters.V.gated_unit.units");
  EXPECT_EQ(error.problem().next, "set layout.tensor_parallel: 2");
  EXPECT_EQ(fit::signature_of(recipe_with(""), "host").features, "gated letter.V=U");
}

TEST(BlockFamilyTest, ParametersAreNamedByTheLetter) {
  std::vector<std::string> names;
  for (const blocks::Parameter& parameter : model::parameters_of(recipe_with("").model))
    names.push_back(parameter.name);
  EXPECT_NE(std::find(names.begin(), names.end(), "block01.U.w_gate"), names.end());
  EXPECT_NE(std::find(names.begin(), names.end(), "block03.V.w_gate"), names.end());
}

}  // namespace
}  // namespace megacpp::testing_support
