// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/char_class.h"

#include <string>
#include <vector>

#include "megacpp/run/data/bpe/regex.h"
#include "megacpp/run/data/bpe/utf8_text.h"

namespace megacpp::data::bpe {
namespace {

constexpr uint32_t kPoints = 0x110000;

/// Every character but the surrogates, one after another.
std::string all_characters() {
  std::string text;
  for (uint32_t point = 0; point < kPoints; ++point)
    if (point < 0xd800 || point >= 0xe000) append_utf8(point, text);
  return text;
}

template <typename Mark>
void mark_matches(const std::string& text, std::string_view pattern, const Mark& mark) {
  Regex(pattern, "characters").for_each_match(text, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end;) {
      const Utf8Char next = valid_utf8_char(text.data() + at);
      mark(next.point);
      at += next.size;
    }
  });
}

std::vector<CharClass> make_classes() {
  const std::string text = all_characters();
  std::vector<CharClass> classes(kPoints, CharClass::other);
  mark_matches(text, R"(\p{L}+)", [&](uint32_t point) { classes[point] = CharClass::letter; });
  mark_matches(text, R"(\p{N}+)", [&](uint32_t point) { classes[point] = CharClass::number; });
  mark_matches(text, R"(\s+)", [&](uint32_t point) { classes[point] = CharClass::space; });
  return classes;
}

std::vector<bool> make_word_points() {
  std::vector<bool> word(kPoints, false);
  mark_matches(all_characters(), R"(\w+)", [&](uint32_t point) { word[point] = true; });
  return word;
}

}  // namespace

CharClass class_of_point(uint32_t point) {
  if (point < kAsciiClass.size()) return kAsciiClass[point];
  static const std::vector<CharClass> classes = make_classes();
  return classes[point];
}

bool is_word_point(uint32_t point) {
  static const std::vector<bool> word = make_word_points();
  return word[point];
}

}  // namespace megacpp::data::bpe
