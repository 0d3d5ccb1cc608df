// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/schema.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "megacpp/core/base/file.h"

namespace megacpp::recipe {
namespace {

TEST(SchemaTest, EveryKeyIsDocumentedAndOfItsMembersKind) {
  const Recipe recipe;
  std::set<std::string> paths;
  for (const Key& key : keys()) {
    EXPECT_GE(key.doc.size(), 8u) << key.path;
    EXPECT_EQ(key.doc.back(), '.') << key.path;
    EXPECT_TRUE(paths.insert(key.path).second) << key.path << " stands twice";
    EXPECT_EQ(kind_of(member_of(key, recipe)), key.kind) << key.path;
  }
}

struct AddressOf {
  const void* operator()(const auto* value) const { return value; }
  const void* operator()(const schema::TextValue& value) const { return value.value; }
};

TEST(SchemaTest, EveryKeyHasItsOwnMember) {
  Recipe recipe;
  std::set<const void*> members;
  for (const Key& key : keys()) {
    const void* address = std::visit(AddressOf{}, key.member(recipe));
    EXPECT_TRUE(members.insert(address).second) << key.path << " shares a member";
  }
}

TEST(SchemaTest, KeyTableHasARowPerKey) {
  const std::string table = key_table();
  for (const Key& key : keys()) EXPECT_NE(table.find("| `" + key.path + "` |"), std::string::npos) << key.path;
  EXPECT_NE(table.find("| `model.hidden` | an integer | required | at least 1 and at most 1048576 |"),
            std::string::npos);
  EXPECT_NE(table.find("| `model.mamba.dt_limit_high` | a number | `.inf` | above 0 |"), std::string::npos);
}

TEST(SchemaTest, RangesReadAsWords) {
  EXPECT_EQ(describe(find_key("optimizer.beta1")->range), "at least 0 and below 1");
  EXPECT_EQ(describe(find_key("train.steps")->range), "at least 1 and at most 1000000000");
  EXPECT_EQ(describe(find_key("train.recompute.A")->range), "auto, none, selective or full");
  EXPECT_EQ(describe(find_key("layout.reshard_after_forward")->range),
            "true, false or an integer at least 2 and at most 65536");
  EXPECT_EQ(describe(find_key("name")->range), "");
}

TEST(SchemaTest, TheNearestValueIsABoundThatIsAllowed) {
  const auto nearest = [](const char* path, double wish) { return nearest_value(*find_key(path), wish); };
  EXPECT_EQ(nearest("layout.zero", 4), "3");
  EXPECT_EQ(nearest("layout.zero", -7), "-1");
  EXPECT_EQ(nearest("train.steps", 1e12), "1000000000");
  EXPECT_EQ(nearest("optimizer.beta1", -0.5), "0");
  EXPECT_EQ(nearest("optimizer.beta1", 1), std::nullopt) << "1 itself is excluded";
  EXPECT_EQ(nearest("optimizer.lr", 0), std::nullopt);
  EXPECT_EQ(nearest("layout.policy", 1), std::nullopt);
}

TEST(SchemaTest, SectionsAndFamiliesFollowThePaths) {
  EXPECT_TRUE(is_section("model"));
  EXPECT_TRUE(is_section("train.recompute"));
  EXPECT_FALSE(is_section("model.hidden"));
  EXPECT_EQ(family_of(*find_key("model.mamba.chunk")), 'M');
  EXPECT_EQ(family_of(*find_key("model.depth")), std::nullopt);
}

TEST(SchemaTest, RenamedKeysNameTheirNewPath) {
  EXPECT_EQ(suggest_key("layout.lane"), "it is 'layout.policy' now: rename it");
}

TEST(SchemaTest, SuggestionsPreferTheSameWordInAnotherSection) {
  EXPECT_EQ(suggest_key("hidden"), "did you mean 'model.hidden'?");
  EXPECT_EQ(suggest_key("model.hiden"), "did you mean 'model.hidden'?");
  EXPECT_EQ(suggest_key("modle"), "did you mean 'model'?");
  EXPECT_EQ(suggest_key("entirely_different_thing"), "see the recipe keys in the documentation");
}

TEST(SchemaTest, TheDocumentationPageHoldsTheKeyTable) {
  const std::string page = base::read_file(std::filesystem::path(MEGACPP_SOURCE_DIR) / "docs/recipe.md");
  EXPECT_NE(page.find(key_table()), std::string::npos) << "put what `megacpp keys` prints in the place of the table";
}

}  // namespace
}  // namespace megacpp::recipe
