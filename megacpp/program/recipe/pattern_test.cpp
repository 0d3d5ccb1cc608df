// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/pattern.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace megacpp::recipe {
namespace {

std::string letters(std::string_view pattern, int64_t depth) {
  const ExpandedPattern expanded = expand(pattern, depth);
  return {expanded.letters.begin(), expanded.letters.end()};
}

base::Error pattern_error(std::string_view pattern, int64_t depth) {
  SCOPED_TRACE(pattern);
  return testing_support::error_of([&] { expand(pattern, depth); });
}

TEST(PatternTest, TilesToDepthAndCutsTheLastTileShort) {
  EXPECT_EQ(letters("AE", 5), "AEAEA");
  EXPECT_EQ(letters("AEMEAEMEAEMR", 56).substr(48), "AEMEAEME");
  EXPECT_EQ(letters("AEMR", 2), "AE");
}

TEST(PatternTest, CutsAreBlockIndicesAndNoBlocks) {
  const ExpandedPattern expanded = expand("AE|M", 7);
  EXPECT_EQ(letters("AE|M", 7), "AEMAEMA");
  EXPECT_EQ(expanded.cuts, (std::vector<int64_t>{2, 5}));
}

TEST(PatternTest, ACutAtTheEndOfTheTileSeparatesTilesButNotTheLast) {
  EXPECT_EQ(expand("AE|", 6).cuts, (std::vector<int64_t>{2, 4}));
}

TEST(PatternTest, LettersOfTheRecipesOwnAreBlocks) {
  const ExpandedPattern expanded = expand("MDME", 4, "D");
  EXPECT_EQ(std::string(expanded.letters.begin(), expanded.letters.end()), "MDME");
  const base::Error unknown = pattern_error("MDME", 4);
  EXPECT_EQ(unknown.problem().got, "'D' at place 2");
  EXPECT_NE(unknown.problem().next.find("or define model.letters.D"), std::string::npos) << unknown.problem().next;
}

TEST(PatternTest, RefusalsNameThePlaceAndTheRemedy) {
  EXPECT_EQ(pattern_error("AXE", 2).code(), base::Code::E1006);
  EXPECT_EQ(pattern_error("AXE", 2).problem().got, "'X' at place 2");
  EXPECT_EQ(pattern_error("Ae", 2).problem().next, "write 'E'");
  for (const char* pattern : {"", "|", "|AE", "A||E"})
    EXPECT_EQ(pattern_error(pattern, 2).code(), base::Code::E1006) << pattern;
  EXPECT_EQ(pattern_error("AE", 0).code(), base::Code::E1003);
}

}  // namespace
}  // namespace megacpp::recipe
