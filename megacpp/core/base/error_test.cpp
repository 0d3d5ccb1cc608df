// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/error.h"

#include <gtest/gtest.h>

namespace megacpp::base {
namespace {

TEST(ErrorTest, MessageNamesCodePlaceGotWantedAndNextStepInThatOrder) {
  const Error error(Code::E1001, {.where = "a.yaml:3", .got = "hiden", .wanted = "hidden", .next = "rename it"});
  EXPECT_STREQ(error.what(),
               "E1001 unknown recipe key\n  where:  a.yaml:3\n  got:    hiden\n  wanted: hidden\n  next:   rename it");
  EXPECT_EQ(error.exit_status(), 2);
}

TEST(ErrorTest, PartsArePrintableAndTheNextStepIsNeverEmpty) {
  const Error error(Code::E1301, {.where = std::string("a\0b", 3), .got = "\xff", .wanted = "x"});
  EXPECT_EQ(error.problem().where, "a\\x00b");
  EXPECT_EQ(error.problem().got, "\\xff");
  EXPECT_EQ(error.problem().next, "see E1301 in docs/errors.md");
  EXPECT_NE(std::string(error.what()).find("where:  a\\x00b\n  got:    \\xff\n"), std::string::npos) << error.what();
}

TEST(ErrorTest, NamesMakeNoLinesThatStandForThemselves) {
  const Error error(Code::E1008, {.where = "a\nb", .got = "'a\nforged row'", .wanted = "x"});
  EXPECT_EQ(error.problem().where, "a\\x0ab");
  EXPECT_EQ(error.problem().got, "'a\n          forged row'");
  EXPECT_EQ(Error(error.code(), error.problem()).problem().got, error.problem().got)
      << "once, however often it is said";
}

TEST(ErrorTest, AnErrorThatFollowsAnotherEndsAsThatOne) {
  const Error error(Code::E3101, {.got = "chip 1 failed", .cause = Code::E2001});
  EXPECT_EQ(error.code(), Code::E3101);
  EXPECT_EQ(error.exit_status(), Error(Code::E2001, {}).exit_status());
  EXPECT_EQ(Error(Code::E3101, {}).exit_status(), exit_status(ErrorClass::environment));
}

TEST(ErrorTest, CodesHaveNamesAndGravity) {
  EXPECT_EQ(code_named("E3101"), Code::E3101);
  EXPECT_EQ(code_named("E310"), std::nullopt);
  EXPECT_EQ(code_named("E0000"), std::nullopt);
  for (const Code graver : {Code::E1001, Code::E2001, Code::E9001}) {
    EXPECT_TRUE(is_graver(graver, Code::E3001)) << code_name(graver);
    EXPECT_FALSE(is_graver(Code::E3001, graver)) << code_name(graver);
  }
  EXPECT_FALSE(is_graver(Code::E3001, Code::E3101)) << "alike";
}

TEST(ErrorTest, NoPartIsEmpty) {
  const Problem problem = Error(Code::E1001, {}).problem();
  EXPECT_EQ(problem.where, "megacpp");
  EXPECT_EQ(problem.got, "unknown recipe key");
  EXPECT_EQ(problem.wanted, "what stands under E1001 in docs/errors.md");
  EXPECT_EQ(problem.next, "see E1001 in docs/errors.md");
}

TEST(ErrorTest, TextsOfManyLinesDoNotLookLikePartsOfTheError) {
  const std::string text = Error(Code::E2004, {.where = "a plugin",
                                               .got = "out of memory\n  next: nothing\n  wanted: more\nerror E1001",
                                               .wanted = "less",
                                               .next = "try again"})
                               .what();
  EXPECT_NE(text.find("\n            next: nothing\n            wanted: more\n          error E1001\n  wanted: less"),
            std::string::npos)
      << text;
}

TEST(ErrorTest, EveryClassHasItsOwnExitStatus) {
  EXPECT_EQ(exit_status(ErrorClass::user), 2);
  EXPECT_EQ(exit_status(ErrorClass::does_not_fit), 3);
  EXPECT_EQ(exit_status(ErrorClass::environment), 1);
  EXPECT_EQ(exit_status(ErrorClass::not_comparable), 4);
  EXPECT_EQ(exit_status(ErrorClass::internal), 70);
}

TEST(ErrorTest, FailedCheckIsAnInternalErrorThatCarriesItsText) {
  try {
    MEGACPP_CHECK(1 == 2) << "one is not " << 2;
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::E9001);
    EXPECT_EQ(error.problem().got, "one is not 2");
    EXPECT_NE(error.problem().where.find("1 == 2"), std::string::npos);
  }
}

TEST(ErrorTest, RequireBuildsItsProblemOnlyOnFailure) {
  int built = 0;
  const auto text = [&built] { return ++built, std::string("x"); };
  MEGACPP_REQUIRE(true, E1003, {.where = text()});
  EXPECT_EQ(built, 0);
  EXPECT_THROW(MEGACPP_REQUIRE(false, E1003, {.where = text()}), Error);
  EXPECT_EQ(built, 1);
}

}  // namespace
}  // namespace megacpp::base
