// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/block_types.h"

#include <gtest/gtest.h>

#include "tests/support/hybrid_recipe.h"

namespace megacpp::recipe {
namespace {

Model with_letters() {
  Model model = testing_support::hybrid_recipe().model;
  model.pattern = "MDGE";
  model.letters['D'] = {.family = "E", .settings = {{"feed_forward.experts", "0"}}};
  model.letters['G'] = {.family = "A", .settings = {{"attention.kv_heads", "2"}}};
  model.letters['X'] = {.family = "E", .settings = {}};
  return model;
}

TEST(BlockTypesTest, AreThoseOfThePatternByFamily) {
  std::string letters;
  for (const BlockType& type : block_types(with_letters())) {
    letters += type.letter;
    EXPECT_EQ(type.blocks, 2) << type.letter;
  }
  EXPECT_EQ(letters, "GMED") << "families in the order of the table, a family's own letter before others";
}

TEST(BlockTypesTest, APathSetsALetterAlone) {
  for (const BlockType& type : block_types(with_letters())) {
    if (type.is_familys_own()) {
      EXPECT_EQ(type.path("x"), "model." + std::string(type.family->name) + ".x");
    }
    if (type.letter != 'G') continue;
    EXPECT_EQ(type.path("kv_heads"), "model.letters.G.attention.kv_heads");
    EXPECT_EQ(type.path("heads"), "model.letters.G.attention.heads") << "that of the family would change A as well";
  }
}

TEST(BlockTypesTest, ExpertsAreThoseOfEveryTypeThatRoutes) {
  Model model = with_letters();
  EXPECT_EQ(expert_counts(model), (std::vector<int64_t>{8}));
  model.letters['D'].settings["feed_forward.experts"] = "4";
  EXPECT_EQ(expert_counts(model), (std::vector<int64_t>{8, 4}));
  model.pattern = "M";
  EXPECT_FALSE(has_experts(model));
}

}  // namespace
}  // namespace megacpp::recipe
