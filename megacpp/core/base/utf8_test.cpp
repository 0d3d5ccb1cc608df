// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/utf8.h"

#include <gtest/gtest.h>

using namespace std::string_literals;

namespace megacpp::base {
namespace {

TEST(Utf8Test, ValidTextIsKept) {
  for (const std::string& text : {"plain\ttext\n"s, "\u00e4\u20ac\U0001f600"s, "\uffff\U0010ffff"s, ""s}) {
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Utf8Test, BytesThatAreNoCharacterAreEscapedOneByOne) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\xff"s, "a\\xff"},                          // never a lead byte
      {"\x80z"s, "\\x80z"},                          // a continuation without its lead byte
      {"\xe2\x82"s, "\\xe2\\x82"},                   // cut short
      {"\xc0\xaf"s, "\\xc0\\xaf"},                   // overlong '/'
      {"\xe0\x80\x80"s, "\\xe0\\x80\\x80"},          // overlong NUL
      {"\xed\xa0\x80"s, "\\xed\\xa0\\x80"},          // surrogate
      {"\xf4\x90\x80\x80"s, "\\xf4\\x90\\x80\\x80"}  // beyond U+10FFFF
  };
  for (const auto& [text, safe] : cases) {
    EXPECT_FALSE(is_utf8(text)) << safe;
    EXPECT_EQ(printable(text), safe);
  }
}

TEST(Utf8Test, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a\0b\x1b[2J\x7f\r"s), "a\\x00b\\x1b[2J\\x7f\\x0d");
  EXPECT_TRUE(is_utf8("a\0b"s));
}

// A terminal may read U+009b as it reads ESC [.
TEST(Utf8Test, ControlCharactersOfTwoBytesAreEscaped) {
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2J\xc2\x80\xc2\xa0"s),
            "a\\xc2\\x9b2J\\xc2\\x80\xc2\xa0");
}

TEST(Utf8Test, ANameMakesNoLineAndNoColumnOfItsOwn) {
  EXPECT_EQ(printable("a\nb\tc"), "a\nb\tc");
  EXPECT_EQ(printable_in_line("a\nb\tc\x1b\xff"s), "a\\x0ab\\x09c\\x1b\\xff");
  EXPECT_EQ(printable_in_line("\u00e4 plain name"), "\u00e4 plain name");
}

}  // namespace
}  // namespace megacpp::base
