// SPDX-License-Identifier: Apache-2.0
// Letters that a recipe defines: what their text may be, what is refused and with which next step.
#include "megacpp/program/recipe/letters.h"

#include <gtest/gtest.h>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "tests/support/errors.h"

namespace megacpp::recipe {
namespace {

using base::Code;

std::string text(const std::string& pattern, const std::string& letters) {
  return "model:\n  pattern: " + pattern +
         "\n  depth: 4\n  hidden: 16\n  vocab: 256\n"
         "  attention: {heads: 4, kv_heads: 2, head_dim: 4, window: 8}\n"
         "  feed_forward: {intermediate: 32, experts: 4}\n" +
         letters + "train: {batch: 2, sequence: 16, steps: 1}\n";
}

constexpr const char* kDense =
    "  letters:\n    D: {family: E, feed_forward: {experts: 0, intermediate: 64}}\n"
    "    G: {family: A, attention: {window: 0}}\n";

Recipe parsed(const std::string& pattern, const std::string& letters, const std::vector<std::string>& overrides = {}) {
  return parse(text(pattern, letters), "r.yaml", overrides);
}

base::Error letters_error(const std::string& pattern, const std::string& letters,
                          const std::vector<std::string>& overrides = {}) {
  return testing_support::error_of([&] { parsed(pattern, letters, overrides); });
}

TEST(LettersTest, SettingsThatAreNotGivenAreThoseOfTheFamily) {
  const Recipe recipe = parsed("ADGE", kDense);
  const auto dense = config_of(recipe.model, 'D').as<blocks::FeedForward>();
  EXPECT_EQ(dense.experts, 0);
  EXPECT_EQ(dense.intermediate, 64);
  EXPECT_EQ(dense.top_k, 2);
  EXPECT_EQ(config_of(recipe.model, 'E').as<blocks::FeedForward>().experts, 4);
  const auto global = config_of(recipe.model, 'G').as<blocks::Attention>();
  EXPECT_EQ(global.window, 0);
  EXPECT_EQ(global.heads, 4);
}

TEST(LettersTest, AChangeOfTheFamilyReachesItsLetters) {
  const Recipe recipe = parsed("ADGE", kDense, {"model.attention.heads=8", "model.feed_forward.intermediate=48"});
  EXPECT_EQ(config_of(recipe.model, 'G').as<blocks::Attention>().heads, 8);
  EXPECT_EQ(config_of(recipe.model, 'D').as<blocks::FeedForward>().intermediate, 64) << "its own";
}

TEST(LettersTest, SettingsCanBeGivenOnTheCommandLine) {
  const Recipe recipe = parsed("ADGE", kDense, {"model.letters.D.feed_forward.experts=8", "train.recompute.D=full"});
  EXPECT_EQ(config_of(recipe.model, 'D').as<blocks::FeedForward>().experts, 8);
  EXPECT_EQ(recipe.train.recompute.at('D'), recipe::RecomputeLevel::full);
  EXPECT_EQ(recipe.train.recompute.at('E'), recipe::RecomputeLevel::automatic);
  const Recipe defined = parsed("AK", "", {"model.letters.K.family=E", "model.letters.K.feed_forward.experts=0"});
  EXPECT_EQ(config_of(defined.model, 'K').as<blocks::FeedForward>().experts, 0);
}

TEST(LettersTest, APrintedRecipeReadsAsTheSame) {
  const Recipe recipe =
      parsed("ADGE", kDense, {"train.recompute.G=selective", "model.letters.D.feed_forward.z_loss=.5"});
  const std::string printed = print(recipe);
  EXPECT_NE(printed.find("  letters:\n    D:\n      family: E\n      feed_forward:\n        intermediate: 64\n"),
            std::string::npos)
      << printed;
  EXPECT_NE(printed.find("    G: selective\n"), std::string::npos) << printed;
  EXPECT_EQ(parse(printed, "printed"), recipe);
}

TEST(LettersTest, EveryWrongDefinitionIsRefusedWithItsPlace) {
  struct Bad {
    const char *what, *pattern, *letters;
    Code code;
    const char *where, *next;
  };
  const std::vector<Bad> all = {
      {"unknown family", "AD", "  letters:\n    D: {family: X}\n", Code::E1003, "r.yaml:9 model.letters.D.family",
       "set model.letters.D.family: A"},
      {"name for a letter", "AD", "  letters:\n    D: {family: feed_forwrd}\n", Code::E1003, "model.letters.D.family",
       "set model.letters.D.family: E"},
      {"lower case family", "AD", "  letters:\n    D: {family: e}\n", Code::E1003, "", "set model.letters.D.family: E"},
      {"no family", "AD", "  letters:\n    D: {feed_forward: {experts: 0}}\n", Code::E1003, "model.letters.D",
       "set model.letters.D.family: E"},
      {"never used", "AE", "  letters:\n    D: {family: E}\n", Code::E1006, "r.yaml:9 model.letters.D",
       "put D into model.pattern"},
      {"not defined", "AQ", "", Code::E1006, "model.pattern", "or define model.letters.Q"},
      {"redefined", "AE", "  letters:\n    E: {family: E}\n", Code::E1006, "r.yaml:9", "model.feed_forward"},
      {"two letters", "AE", "  letters:\n    DD: {family: E}\n", Code::E1006, "r.yaml:9", "such as D"},
      {"lower case", "AE", "  letters:\n    d: {family: E}\n", Code::E1006, "r.yaml:9", "write 'D'"},
      {"a digit", "AE", "  letters:\n    7: {family: E}\n", Code::E1006, "r.yaml:9", "such as D"},
      {"another section", "AD", "  letters:\n    D: {family: E, attention: {window: 4}}\n", Code::E1001,
       "r.yaml:9 model.letters.D.attention.window", "or set model.letters.D.family: A"},
      {"unknown key", "AD", "  letters:\n    D: {family: E, feed_forward: {expert: 4}}\n", Code::E1001, "r.yaml:9",
       "did you mean 'model.letters.D.feed_forward.experts'?"},
      {"key without section", "AD", "  letters:\n    D: {family: E, experts: 4}\n", Code::E1001, "r.yaml:9",
       "did you mean 'model.letters.D.feed_forward.experts'?"},
      {"another kind", "AD", "  letters:\n    D: {family: E, feed_forward: {experts: many}}\n", Code::E1002,
       "r.yaml:9 model.letters.D.feed_forward.experts", ""},
      {"out of range", "AD", "  letters:\n    D: {family: E, feed_forward: {experts: -1}}\n", Code::E1003,
       "r.yaml:9 model.letters.D.feed_forward.experts", "set model.letters.D.feed_forward.experts: 0"},
      {"does not fit together", "DD", "  letters:\n    D: {family: A, attention: {kv_heads: 3}}\n", Code::E1005,
       "r.yaml:9 model.letters.D.attention.kv_heads", "set model.letters.D.attention.kv_heads: 2"},
      {"nothing", "AD", "  letters:\n    D:\n", Code::E1003, "r.yaml:9 model.letters.D",
       "set model.letters.D.family: A"},
      {"an empty section", "AD", "  letters:\n    D: {feed_forward: }\n", Code::E1003, "r.yaml:9 model.letters.D",
       "set model.letters.D.family"},
      {"a setting of the family", "GE", "  letters:\n    G: {family: A, attention: {heads: 3}}\n", Code::E1005,
       "r.yaml:6 model.attention.kv_heads (of letter G)", "set model.letters.G.attention.kv_heads: 1"},
      {"a scalar", "AD", "  letters:\n    D: E\n", Code::E1002, "r.yaml:9 model.letters.D", "write D: {family: E}"},
      {"no group", "AE", "  letters: D\n", Code::E1002, "model.letters", ""},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.what);
    const base::Error error = letters_error(bad.pattern, bad.letters);
    EXPECT_EQ(error.code(), bad.code) << error.what();
    EXPECT_NE(error.problem().where.find(bad.where), std::string::npos) << error.problem().where;
    EXPECT_NE(error.problem().next.find(bad.next), std::string::npos) << error.problem().next;
  }
}

TEST(LettersTest, RecomputeOfALetterNeedsTheLetter) {
  const base::Error error = letters_error("AE", "", {"train.recompute.Q=full"});
  EXPECT_EQ(error.code(), Code::E1006);
  EXPECT_EQ(error.problem().where, "--set train.recompute.Q");
  EXPECT_EQ(letters_error("ADGE", kDense, {"train.recompute.D=fulll"}).problem().next, "did you mean 'full'?");
  EXPECT_EQ(letters_error("AE", "", {"model.letters.D=E"}).code(), Code::E1002) << "a group of keys";
}

TEST(LettersTest, ALetterInTheFamilysPlaceNeedsNoBlockOfTheFamily) {
  const Recipe recipe = parsed("GD", kDense);
  EXPECT_EQ(block_types(recipe.model).size(), 2u);
}

}  // namespace
}  // namespace megacpp::recipe
