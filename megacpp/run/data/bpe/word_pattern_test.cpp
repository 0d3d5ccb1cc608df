// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/word_pattern.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "megacpp/run/data/bpe/char_class.h"
#include "megacpp/run/data/bpe/regex.h"
#include "megacpp/run/data/bpe/utf8_text.h"

namespace megacpp::data::bpe {
namespace {

std::vector<std::string> words_by_hand(const WordPattern& pattern, const std::string& text) {
  std::vector<std::string> words;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* behind = pattern.word_end(at, end);
    words.emplace_back(at, behind);
    at = behind;
  }
  return words;
}

std::vector<std::string> words_by_regex(const Regex& regex, const std::string& text) {
  std::vector<std::string> words;
  regex.for_each_match(text, [&](size_t begin, size_t end) { words.push_back(text.substr(begin, end - begin)); });
  return words;
}

/// Characters around which the expressions decide, and any others.
std::string random_text(std::mt19937& random) {
  static const std::vector<uint32_t> kPoints = {
      ' ',    ' ',    ' ',    '\t', '\n', '\n',  '\r',  '\v',   '\f',   0x85,    0xa0,   0x1680,  0x180e,
      0x2003, 0x2028, 0x3000, '\'', '\'', 's',   'S',   't',    'm',    'd',     'r',    'e',     'v',
      'l',    'L',    0x17f,  'x',  'Y',  0xe9,  0x391, 0x4e00, 0x5d0,  '0',     '7',    0x661,   0x2167,
      0xbd,   '.',    ',',    '_',  '{',  0x301, 0x93f, 0xfe0f, 0x200d, 0x1f600, 0xfffd, 0x10ffff};
  std::string text;
  const int length = std::uniform_int_distribution(0, 24)(random);
  for (int i = 0; i < length; ++i) {
    uint32_t point = kPoints[std::uniform_int_distribution<size_t>(0, kPoints.size() - 1)(random)];
    if (std::uniform_int_distribution(0, 9)(random) == 0)
      point = std::uniform_int_distribution<uint32_t>(0, 0x2ffff)(random);
    if (point < 0xd800 || point >= 0xe000) append_utf8(point, text);
  }
  return text;
}

TEST(WordPatternTest, EqualsItsExpressionOnAnyText) {
  for (const WordPattern& pattern : all_word_patterns()) {
    const Regex regex(pattern.regex, std::string(pattern.name));
    std::mt19937 random(18);
    for (int i = 0; i < 30'000; ++i) {
      const std::string text = random_text(random);
      ASSERT_EQ(words_by_hand(pattern, text), words_by_regex(regex, text)) << pattern.name << ": [" << text << "]";
    }
  }
}

TEST(WordPatternTest, IsFoundByItsExpression) {
  for (const WordPattern& pattern : all_word_patterns()) EXPECT_EQ(word_pattern_of(pattern.regex), &pattern);
  EXPECT_EQ(word_pattern_of(R"(\p{L}+)"), nullptr);
}

TEST(CharClassTest, AgreesWithAscii) {
  const auto asked = [](const char* regex, uint32_t point) {
    std::string text, found;
    append_utf8(point, text);
    Regex(regex, "test").for_each_match(text, [&](size_t, size_t) { found = text; });
    return !found.empty();
  };
  for (uint32_t point = 0; point < 128; ++point) {
    EXPECT_EQ(class_of_point(point) == CharClass::letter, asked(R"(\p{L})", point)) << point;
    EXPECT_EQ(class_of_point(point) == CharClass::number, asked(R"(\p{N})", point)) << point;
    EXPECT_EQ(class_of_point(point) == CharClass::space, asked(R"(\s)", point)) << point;
  }
  EXPECT_EQ(class_of_point(0x180e), CharClass::other) << "as Oniguruma has it";
  EXPECT_TRUE(is_word_point(0x301));
  EXPECT_FALSE(is_word_point('-'));
}

}  // namespace
}  // namespace megacpp::data::bpe
