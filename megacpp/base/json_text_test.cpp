// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/json_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megacpp::base {
namespace {

Json parse(std::string_view text) { return parse_json(text, Code::E1202, "a.json"); }

TEST(JsonTextTest, TextRoundTripsWithOrderKept) {
  const std::string text = R"({"b":[1,-2.5,true,null],"a":{"x":"tab\u0009 \"q\" \\"},"e":[],"o":{}})";
  EXPECT_EQ(to_text(parse(text)), text);
}

TEST(JsonTextTest, IntegersAndNumbersAreKeptApart) {
  const Json value = parse("[9007199254740993, 1e3, 1.0]");
  const Json::Array& items = *value.get_if<Json::Array>();
  EXPECT_EQ(*items[0].get_if<int64_t>(), 9007199254740993);
  EXPECT_EQ(*items[1].get_if<double>(), 1000.0);
  EXPECT_EQ(items[2].get_if<int64_t>(), nullptr);
  EXPECT_EQ(*items[2].number(), 1.0);
  EXPECT_EQ(*items[0].number(), 9007199254740992.0);
}

TEST(JsonTextTest, PythonsBareWordsAreRead) {
  const Json value = parse("[0.0, Infinity, -Infinity, NaN]");
  const Json::Array& items = *value.get_if<Json::Array>();
  EXPECT_EQ(*items[1].number(), HUGE_VAL);
  EXPECT_EQ(*items[2].number(), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(*items[3].number()));
  EXPECT_EQ(to_text(items[1]), "null");
}

TEST(JsonTextTest, EscapesBecomeUtf8) {
  EXPECT_EQ(*parse(R"("\u00e9\n\ud83d\ude00")").get_if<std::string>(), "\xc3\xa9\n\xf0\x9f\x98\x80");
}

TEST(JsonTextTest, MembersAreFoundByName) {
  const Json value = parse(R"({"a": {"b": 3}})");
  ASSERT_NE(value.find("a"), nullptr);
  EXPECT_EQ(*value.find("a")->find("b")->get_if<int64_t>(), 3);
  EXPECT_EQ(value.find("c"), nullptr);
  EXPECT_EQ(value.find("a")->find("b")->find("x"), nullptr);
  EXPECT_EQ(value.find("a")->kind_name(), "an object");
}

TEST(JsonTextTest, BrokenTextIsRefusedWithItsPlace) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1,}", "{a:1}", "[1 2]", "\"x", "01x", "tru", "1 2", "\"\\x\"",
                           "\"\\ud800\"", "{\"a\":1,\"a\":2}", "-", "[", "\"\n\""}) {
    try {
      parse(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::E1202) << text;
      EXPECT_EQ(error.problem().where.rfind("a.json, byte ", 0), 0u) << text;
    }
  }
}

TEST(JsonTextTest, EndlessNestingIsRefusedInsteadOfOverflowingTheStack) {
  EXPECT_THROW(parse(std::string(1000000, '[')), Error);
}

}  // namespace
}  // namespace megacpp::base
