// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/synonyms.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "megacpp/program/recipe/letters.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::recipe {
namespace {

TEST(SynonymsTest, EachSuggestsAKeyThatThereIs) {
  std::set<std::string_view> words;
  for (const Synonym& synonym : synonyms()) {
    EXPECT_TRUE(words.insert(synonym.word).second) << synonym.word << " twice";
    EXPECT_TRUE(find_key(synonym.path) != nullptr || is_section(synonym.path)) << synonym.path;
    const std::string suggestion = "did you mean '" + std::string(synonym.path) + "'?";
    for (const char* section : {"", "train.", "some.other."})
      EXPECT_EQ(suggest_key(section + std::string(synonym.word)), suggestion);
  }
}

TEST(SynonymsTest, TheSectionThatWasNamedIsMeantWhereItHasSuchAKey) {
  EXPECT_EQ(suggest_key("optimizer.learning_rate"), "did you mean 'optimizer.lr'?");
  EXPECT_EQ(suggest_key("model.mamba.num_heads"), "did you mean 'model.mamba.heads'?");
  EXPECT_EQ(suggest_key("model.mamba.n_layer"), "did you mean 'model.depth'?");
  const auto of_letter = [](const char* path) { return suggest_letter_key(letter_path(path), path); };
  EXPECT_EQ(of_letter("model.letters.D.mamba.num_heads"), "did you mean 'model.letters.D.mamba.heads'?");
  EXPECT_EQ(of_letter("model.letters.D.num_experts"), "did you mean 'model.letters.D.feed_forward.experts'?");
}

TEST(SynonymsTest, DashesAndCapitalsAreReadAsWell) {
  EXPECT_EQ(suggest_key("Learning-Rate"), "did you mean 'optimizer.lr'?");
  EXPECT_EQ(key_of_synonym("lr"), std::nullopt) << "our own word";
}

}  // namespace
}  // namespace megacpp::recipe
