// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/value.h"

#include <gtest/gtest.h>

namespace megacpp::schema {
namespace {

TEST(ValueTest, WhatIsWrittenReadsAsTheSame) {
  int64_t integer = -3, integer_read = 0;
  double number = std::numeric_limits<double>::infinity(), number_read = 0;
  bool flag = true, flag_read = false;
  ByteSize size{512 << 20}, size_read;
  EXPECT_TRUE(read_scalar(value_text(&integer), &integer_read));
  EXPECT_EQ(integer, integer_read);
  EXPECT_TRUE(read_scalar(value_text(&number), &number_read));
  EXPECT_EQ(number, number_read);
  EXPECT_TRUE(read_scalar(value_text(&flag), &flag_read));
  EXPECT_EQ(flag, flag_read);
  EXPECT_TRUE(read_scalar(value_text(&size), &size_read));
  EXPECT_EQ(size, size_read);
}

TEST(ValueTest, TextsThatYamlWouldReadOtherwiseAreQuoted) {
  std::string plain = "nam52-tiny.yaml", cut = "A|E", null = "null";
  EXPECT_EQ(value_text(&plain), "nam52-tiny.yaml");
  EXPECT_EQ(value_text(&cut), "\"A|E\"");
  EXPECT_EQ(value_text(&null), "\"null\"");
  for (std::string text : {"/data/a.txt", "A", "zero_3"}) EXPECT_EQ(value_text(&text), text);
  for (std::string text : {"", "3", "1e6", "-x", ".5", "~", "null", "a: b", "a#b"})
    EXPECT_EQ(value_text(&text), "\"" + text + "\"");
  std::vector<std::string> list = {"a.txt", "b c"};
  EXPECT_EQ(value_text(&list), "[a.txt, \"b c\"]");
}

TEST(ValueTest, OtherKindsAreRefused) {
  int64_t integer = 0;
  double number = 0;
  bool flag = false;
  std::string text;
  ByteSize size;
  for (const char* bad : {"", "4x", "1.5", "four"}) EXPECT_FALSE(read_scalar(bad, &integer)) << bad;
  for (const char* bad : {"", "nan", "inf", "1,5"}) EXPECT_FALSE(read_scalar(bad, &number)) << bad;
  for (const char* bad : {"", "yes", "1", "True"}) EXPECT_FALSE(read_scalar(bad, &flag)) << bad;
  EXPECT_FALSE(read_scalar("", &text));
  EXPECT_FALSE(read_scalar("512M", &size));
}

TEST(ValueTest, NumbersBeyond64BitsAreToldFromWords) {
  EXPECT_TRUE(is_beyond_counting("99999999999999999999"));
  EXPECT_TRUE(is_beyond_counting("-99999999999999999999"));
  EXPECT_FALSE(is_beyond_counting("12"));
  EXPECT_FALSE(is_beyond_counting("99999999999999999999 tokens"));
}

TEST(ValueTest, KindsFollowTheirMembers) {
  int64_t integer = 0;
  ByteSize size;
  EXPECT_EQ(kind_of(Member(&integer)), Kind::integer);
  EXPECT_EQ(kind_of(Member(&size)), Kind::bytes);
  EXPECT_EQ(kind_name(Kind::integer), "an integer");
}

}  // namespace
}  // namespace megacpp::schema
