// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace megacpp::base {
namespace {

Json parse(std::string_view text) { return parse_json(text, Code::E1202, "a.json"); }

Problem refused(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::E1202) << text;
    return error.problem();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

TEST(JsonTest, TextRoundTripsWithOrderKept) {
  const std::string text = R"({"b":[1,-2.5,true,null],"a":{"x":"tab\t \"q\" \\"},"e":[],"o":{}})";
  EXPECT_EQ(to_text(parse(text)), text);
  EXPECT_EQ(to_text(parse(R"({"b": 1, "a": [2]})"), 2), "{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}");
}

TEST(JsonTest, IntegersAndNumbersAreKeptApart) {
  const Json value = parse("[9007199254740993, 1e3, 1.0, -9223372036854775808, 9223372036854775807]");
  EXPECT_EQ(as_integer(value[0]), 9007199254740993);
  EXPECT_EQ(as_number(value[1]), 1000.0);
  EXPECT_EQ(as_integer(value[1]), std::nullopt);
  EXPECT_EQ(as_integer(value[2]), std::nullopt);
  EXPECT_EQ(as_number(value[2]), 1.0);
  EXPECT_EQ(as_number(value[0]), 9007199254740992.0);
  EXPECT_EQ(as_integer(value[3]), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(as_integer(value[4]), std::numeric_limits<int64_t>::max());
}

TEST(JsonTest, IntegersBeyondSixtyFourSignedBitsAreNoIntegersOfOurs) {
  const Json value = parse("[9223372036854775808, 18446744073709551615, 18446744073709551616, -9223372036854775809]");
  for (const Json& number : value) {
    EXPECT_EQ(as_integer(number), std::nullopt) << number;
    EXPECT_GE(std::abs(as_number(number).value()), 0x1p63) << number;
  }
  EXPECT_EQ(to_text(value[1]), "18446744073709551615");
}

TEST(JsonTest, NumbersRoundTripToTheBit) {
  for (const double number :
       {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.2250738585072014e-308, 1e22, 123456.75}) {
    EXPECT_EQ(as_number(parse(to_text(Json(number)))), number);
    EXPECT_EQ(parse(to_text(Json(number))), Json(number));
  }
  EXPECT_TRUE(std::signbit(as_number(parse("-0.0")).value()));
}

TEST(JsonTest, PythonsBareWordsAreRead) {
  const Json value = parse("[0.0, Infinity, -Infinity,NaN , 0e0, {\"a\":Infinity,\"b\":\tNaN}]");
  EXPECT_EQ(as_number(value[0]), 0.0);
  EXPECT_EQ(as_number(value[1]), HUGE_VAL);
  EXPECT_EQ(as_number(value[2]), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(as_number(value[3]).value()));
  EXPECT_EQ(as_number(value[4]), 0.0);
  EXPECT_EQ(as_number(value[5]["a"]), HUGE_VAL);
  EXPECT_TRUE(std::isnan(as_number(value[5]["b"]).value()));
  EXPECT_EQ(to_text(value), R"([0.0,null,null,null,0.0,{"a":null,"b":null}])");
  EXPECT_EQ(as_number(parse("-Infinity")), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(as_number(parse("NaN")).value()));
}

TEST(JsonTest, BareWordsInsideStringsStay) {
  const Json value = parse(R"({"NaN": "a, NaN", "k\"": "\\", "x": [NaN, "Infinity", "\" ,-Infinity"]})");
  EXPECT_EQ(value["NaN"], "a, NaN");
  EXPECT_EQ(value["k\""], "\\");
  EXPECT_TRUE(std::isnan(as_number(value["x"][0]).value()));
  EXPECT_EQ(value["x"][1], "Infinity");
  EXPECT_EQ(value["x"][2], "\" ,-Infinity");
}

TEST(JsonTest, WhatOnlyLooksLikeABareWordIsRefused) {
  for (const char* text : {"-NaN", "1NaN", "NaN1", "NaNx", "xNaN", "+Infinity", "1Infinity", "Infinity2", "--Infinity",
                           "1e-Infinity", "1-Infinity", "[NaN Infinity]", "{NaN:1}", "Infinit", "nan", "[1,NaN,]"})
    refused(text);
}

TEST(JsonTest, EscapesBecomeUtf8) {
  EXPECT_EQ(parse(R"("\u00e9\n\ud83d\ude00")"), "\xc3\xa9\n\xf0\x9f\x98\x80");
  EXPECT_EQ(json_quoted("a\"\\\n\xc3\xa9"), "\"a\\\"\\\\\\n\xc3\xa9\"");
}

TEST(JsonTest, MembersAreFoundByName) {
  const Json value = parse(R"({"a": {"b": 3, "t": "x", "f": true}})");
  const Json* a = find_member(value, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(as_integer(*find_member(*a, "b")), 3);
  EXPECT_EQ(*as_text(*find_member(*a, "t")), "x");
  EXPECT_EQ(as_flag(*find_member(*a, "f")), true);
  EXPECT_EQ(as_text(*a), nullptr);
  EXPECT_EQ(as_flag(*a), std::nullopt);
  EXPECT_EQ(as_number(*find_member(*a, "t")), std::nullopt);
  EXPECT_EQ(find_member(value, "c"), nullptr);
  EXPECT_EQ(find_member(*find_member(*a, "b"), "x"), nullptr);
  EXPECT_EQ(kind_name(*a), "an object");
  EXPECT_EQ(kind_name(parse("[1]")[0]), "an integer");
}

TEST(JsonTest, BrokenTextIsRefusedWithItsPlace) {
  for (const char* text :
       {"",        " ",     "{",   "[1,]", "{\"a\":1,}", "{a:1}",       "[1 2]",     "\"x",
        "01x",     "01",    "tru", "1 2",  "\"\\x\"",    "\"\\ud800\"", "\"\\u12\"", "{\"a\":1,\"a\":2}",
        "{\"a\"}", "{1:2}", "-",   "[",    "]",          "\"\n\"",      ".5",        "1.",
        "1e",      "+1",    "//",  "'a'"})
    EXPECT_EQ(refused(text).where.rfind("a.json, byte ", 0), 0u) << text;
  EXPECT_EQ(refused(R"({"a": 1, "b": {"a": 2}, "a": 3})").got, "key \"a\" twice");
  EXPECT_EQ(refused("[1, 2, x]").where, "a.json, byte 8");
  EXPECT_EQ(refused("[NaN, x]").where, "a.json, byte 7");
  EXPECT_EQ(refused("[1").got, "the end of the text");
  EXPECT_EQ(refused("").got, "the end of the text");
  EXPECT_EQ(refused("\"x").got, "the end of the text");
  EXPECT_EQ(refused("tru").got, "the end of the text");
  EXPECT_EQ(refused("{]").got, "']'");
  EXPECT_EQ(refused("[1,]").got, "']'");
  EXPECT_EQ(refused("\"\xff\"").got, "byte 0xff");
  EXPECT_EQ(refused("[1e999]").got, "the number 1e999");
}

TEST(JsonTest, EveryPrefixOfATextIsRefused) {
  const std::string text = R"({"a":[1,-2.5e3,NaN,{"b":"\u00e9"}],"c":true})";
  for (size_t size = 0; size < text.size(); ++size) refused(text.substr(0, size));
  parse(text);
}

TEST(JsonTest, BytesThatAreNoUtf8AreRefusedAndNeverWritten) {
  for (const char* text :
       {"\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "{\"\xc0\xaf\":1}", "\xff"})
    refused(text);
  EXPECT_EQ(json_quoted("a\xff"), "\"a\xef\xbf\xbd\"");
}

TEST(JsonTest, ANulByteDoesNotEndTheText) {
  refused(std::string_view("1\0 garbage", 10));
  refused(std::string_view("\"a\0b\"", 5));
  refused(std::string_view("\0", 1));
}

TEST(JsonTest, NumbersTooLargeForADoubleAreRefused) {
  refused("1e999");
  refused("[-1e400]");
  EXPECT_EQ(as_number(parse("1e-999")), 0.0);
  EXPECT_EQ(as_number(parse("1" + std::string(300, '0'))), 1e300);
}

TEST(JsonTest, EndlessNestingIsRefused) {
  EXPECT_EQ(refused(std::string(1000000, '[')).got, "values nested too deeply");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_EQ(refused(objects).got, "values nested too deeply");
  parse(std::string(200, '[') + std::string(200, ']'));
  refused(std::string(201, '[') + std::string(201, ']'));
}

TEST(JsonTest, ALongTokenIsNotRepeatedInTheMessage) {
  EXPECT_LE(refused("\"" + std::string(100000, 'x')).got.size(), 200u);
}

// An index of weights has a key for each tensor of a model; looking for each among all before it would take minutes.
TEST(JsonTest, ManyKeysTakeTimeInProportion) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":1";
  EXPECT_EQ(parse(text + "}").size(), 200000u);
}

}  // namespace
}  // namespace megacpp::base
