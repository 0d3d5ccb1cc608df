// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/unused_model_keys.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "megacpp/program/recipe/parse.h"

namespace megacpp::recipe {
namespace {

using Found = std::vector<KeyWithoutEffect>;

Found found_in(const std::vector<std::string>& settings) {
  constexpr const char* kText = R"(
model: {pattern: AD, depth: 2, hidden: 64, vocab: 256, attention: {heads: 4, kv_heads: 2, head_dim: 16},
        letters: {D: {family: E, feed_forward: {intermediate: 64, experts: 0}}}}
train: {batch: 2, sequence: 32, steps: 1}
optimizer: {lr: 1.0e-3}
)";
  return ignored_keys(unused_model_keys(), parse(kText, "test.yaml", settings), Use::run);
}

TEST(UnusedModelKeysTest, SectionsOfFamiliesThatTheModelLacks) {
  EXPECT_EQ(found_in({}), Found{});
  EXPECT_EQ(found_in({"model.mamba.heads=8", "model.attention.window=16"}),
            (Found{{"model.mamba.heads", "the model has no block of family M (Mamba-2)", "--set"}}));
}

TEST(UnusedModelKeysTest, SettingsThatEveryLetterOfAFamilyGivesItself) {
  EXPECT_EQ(
      found_in({"model.feed_forward.intermediate=128", "model.feed_forward.activation=relu2"}),
      (Found{{"model.feed_forward.intermediate", "every letter of family E in the pattern has its own", "--set"}}))
      << "the activation is read by D";
  EXPECT_EQ(found_in({"model.feed_forward.intermediate=128", "model.pattern=ADE", "model.depth=3"}), Found{})
      << "E blocks read it";
}

TEST(UnusedModelKeysTest, LevelsOfRecomputeByLetter) {
  EXPECT_EQ(found_in({"train.recompute.M=full"}),
            (Found{{"train.recompute.M", "the model has no block of family M (Mamba-2)", "--set"}}));
  EXPECT_EQ(found_in({"train.recompute.E=full"}), Found{}) << "D follows it";
  EXPECT_EQ(found_in({"train.recompute.E=full", "train.recompute.D=none"}),
            (Found{{"train.recompute.E", "every letter of family E in the pattern has its own", "--set"}}));
  EXPECT_EQ(found_in({"train.recompute=full"}), Found{}) << "one level for all letters";
  EXPECT_EQ(found_in({"train.recompute=full", "train.recompute.A=none"}), Found{}) << "nobody gave R's";
  EXPECT_EQ(found_in({"train.recompute=full", "train.recompute.D=none"}), Found{}) << "nobody gave E's";
  EXPECT_EQ(found_in({"train.recompute.A=none", "train.recompute.R=full"}),
            (Found{{"train.recompute.R", "the model has no block of family R (recurrent)", "--set"}}));
}

TEST(UnusedModelKeysTest, SettingsOfAdaptersThatTheModelLacks) {
  EXPECT_EQ(found_in({"lora.alpha=8"}), (Found{{"lora.alpha", "lora.rank is 0: no adapters", "--set"}}));
  EXPECT_EQ(found_in({"lora.alpha=8", "lora.rank=4"}), Found{});
}

TEST(UnusedModelKeysTest, AreNamedWithTheLineThatGivesThem) {
  constexpr const char* kText = R"(model: {pattern: A, depth: 1, hidden: 64, vocab: 256,
        attention: {heads: 4, kv_heads: 2, head_dim: 16},
        mamba: {heads: 8}}
train: {batch: 2, sequence: 32, steps: 1}
)";
  const Recipe recipe = parse(kText, "test.yaml");
  EXPECT_EQ(ignored_keys(unused_model_keys(), recipe, Use::run),
            (Found{{"model.mamba.heads", "the model has no block of family M (Mamba-2)", "test.yaml:3"}}));
  Recipe other = recipe;
  other.origins = {};
  EXPECT_EQ(other, recipe) << "where a key stands is no part of what a recipe says";
}

TEST(UnusedModelKeysTest, NoShippedRecipeHasOne) {
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(MEGACPP_SOURCE_DIR) / "recipes"))
    if (entry.path().extension() == ".yaml") {
      const Found found = ignored_keys(unused_model_keys(), load(entry.path()), Use::run);
      EXPECT_EQ(found, Found{}) << entry.path() << ": " << (found.empty() ? "" : found[0].key);
    }
}

}  // namespace
}  // namespace megacpp::recipe
