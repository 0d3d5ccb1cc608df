// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/recompute.h"

#include <gtest/gtest.h>

#include "megacpp/recipe/schema.h"

namespace megacpp::recipe {
namespace {

TEST(RecomputeTest, EveryKeyOfTheSectionIsListedWithItsOwnMember) {
  size_t in_schema = 0;
  for (const Key& key : keys()) in_schema += key.path.starts_with("train.recompute.");
  EXPECT_EQ(kRecomputeKeys.size(), in_schema);
  for (const RecomputeKey& key : kRecomputeKeys) {
    ASSERT_NE(find_key(key.name()), nullptr) << key.name();
    Recipe recipe;
    recipe.train.*key.level = "full";
    EXPECT_EQ(value_text(member_of(*find_key(key.name()), recipe)), "full") << key.name();
  }
}

TEST(RecomputeTest, OnlyFamiliesWithinTheDepthCount) {
  Model model;
  model.pattern = "RMA|E";
  model.depth = 3;
  std::string families;
  for (const RecomputeKey& key : recompute_keys_of(model)) families += key.family;
  EXPECT_EQ(families, "AMR");
}

}  // namespace
}  // namespace megacpp::recipe
