// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"

namespace megacpp::recipe {
namespace {

std::set<std::filesystem::path> shipped() {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(MEGACPP_SOURCE_DIR) / "recipes")) {
    if (entry.path().extension() == ".yaml") paths.insert(entry.path());
  }
  return paths;
}

TEST(ShippedRecipesTest, EveryOneIsValidNamedAfterItsFileAndRoundTrips) {
  ASSERT_GE(shipped().size(), 6u);
  for (const auto& path : shipped()) {
    const Recipe recipe = load(path);
    EXPECT_EQ(recipe.name, path.stem().string());
    EXPECT_EQ(parse(print(recipe), "printed"), recipe) << path;
  }
}

TEST(ShippedRecipesTest, FullSizesKeepThePublishedShape) {
  const std::filesystem::path folder = std::filesystem::path(MEGACPP_SOURCE_DIR) / "recipes";
  for (const char* name : {"nam52.yaml", "nam56r.yaml"}) {
    const Model model = load(folder / name).model;
    EXPECT_EQ(model.hidden, 3584);
    EXPECT_EQ(model.config<blocks::Attention>().heads, 56);
    EXPECT_EQ(model.config<blocks::Attention>().kv_heads, 8);
    EXPECT_EQ(model.config<blocks::Attention>().head_dim, 64);
  }
  EXPECT_EQ(load(folder / "nam56r.yaml").model.pattern, "AEMEAEMEAEMR");
  EXPECT_EQ(load(folder / "nam56r.yaml").model.depth, 56);
  EXPECT_EQ(load(folder / "nam52.yaml").model.depth, 52);
}

}  // namespace
}  // namespace megacpp::recipe
