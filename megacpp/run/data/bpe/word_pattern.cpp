// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/word_pattern.h"

#include <array>
#include <cstdint>

#include "megacpp/run/data/bpe/char_class.h"
#include "megacpp/run/data/bpe/utf8_text.h"

namespace megacpp::data::bpe {
namespace {

/// What the expressions differ in. Each tries, in this order: a contraction, letters, numbers, other characters,
/// white space up to its last line break, white space but for its last character, white space.
struct Dialect {
  bool any_case;          // contractions: 'S as well as 's
  bool any_prefix;        // one character of any kind but letters, numbers and line breaks before letters; else a blank
  int most_digits;        // a word; 0: any number of them, with a blank before them
  bool with_line_breaks;  // others take the line breaks behind them; white space ends at its last line break
};

struct Char {
  CharClass kind;
  size_t size;
};

inline Char char_at(const char* at) {
  const auto lead = static_cast<uint8_t>(*at);
  if (lead < 0x80) return {kAsciiClass[lead], 1};
  const Utf8Char next = valid_utf8_char(at);
  return {class_of_point(next.point), next.size};
}

inline const char* skip(const char* at, const char* end, CharClass kind) {
  while (at != end) {
    const Char next = char_at(at);
    if (next.kind != kind) break;
    at += next.size;
  }
  return at;
}

inline bool is_line_break(char c) { return c == '\n' || c == '\r'; }

/// 's 't 'm 'd 're 've 'll at `at`, which has an apostrophe; nullptr where there is none.
template <Dialect dialect>
const char* contraction_end(const char* at, const char* end) {
  const auto lower = [&](const char* c) {
    return dialect.any_case && *c >= 'A' && *c <= 'Z' ? static_cast<char>(*c + 32) : *c;
  };
  if (end - at < 2) return nullptr;
  const char first = lower(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (end - at < 3) return nullptr;
  const char second = lower(at + 2);
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  const bool long_s = dialect.any_case && at[1] == '\xc5' && at[2] == '\xbf';  // U+017F folds to s
  return long_s ? at + 3 : nullptr;
}

template <Dialect dialect>
const char* number_end(const char* at, const char* end) {
  if constexpr (dialect.most_digits == 0) return skip(at, end, CharClass::number);
  for (int digits = 0; digits < dialect.most_digits && at != end; ++digits) {
    const Char next = char_at(at);
    if (next.kind != CharClass::number) break;
    at += next.size;
  }
  return at;
}

template <Dialect dialect>
const char* other_end(const char* at, const char* end) {
  at = skip(at, end, CharClass::other);
  if constexpr (dialect.with_line_breaks)
    while (at != end && is_line_break(*at)) ++at;
  return at;
}

/// White space that no word takes along.
template <Dialect dialect>
const char* space_end(const char* at, const char* end) {
  const char* behind = skip(at, end, CharClass::space);
  if constexpr (dialect.with_line_breaks)
    for (const char* last = behind; last != at; --last)
      if (is_line_break(last[-1])) return last;
  if (behind == end) return end;
  const char* last = previous_char(behind);
  return last == at ? behind : last;
}

template <Dialect dialect>
const char* word_end(const char* at, const char* end) {
  if (*at == '\'')
    if (const char* behind = contraction_end<dialect>(at, end)) return behind;
  const Char first = char_at(at);
  const char* second = at + first.size;
  if (first.kind == CharClass::letter) return skip(second, end, CharClass::letter);
  if (first.kind == CharClass::number) return number_end<dialect>(at, end);
  const CharClass next = second == end ? CharClass::space : char_at(second).kind;
  const bool blank = *at == ' ';
  if (next == CharClass::letter && (dialect.any_prefix ? !is_line_break(*at) : blank))
    return skip(second, end, CharClass::letter);
  if (first.kind == CharClass::other) return other_end<dialect>(at, end);
  if (blank && next == CharClass::number && dialect.most_digits == 0) return number_end<dialect>(second, end);
  if (blank && next == CharClass::other) return other_end<dialect>(second, end);
  return space_end<dialect>(at, end);
}

constexpr Dialect kGpt2 = {.any_case = false, .any_prefix = false, .most_digits = 0, .with_line_breaks = false};
constexpr Dialect kLlama3 = {.any_case = true, .any_prefix = true, .most_digits = 3, .with_line_breaks = true};
constexpr Dialect kQwen2 = {.any_case = true, .any_prefix = true, .most_digits = 1, .with_line_breaks = true};

constexpr std::array<WordPattern, 3> kPatterns = {{
    {"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", word_end<kGpt2>},
    {"llama3",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     word_end<kLlama3>},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     word_end<kQwen2>},
}};

}  // namespace

std::span<const WordPattern> all_word_patterns() { return kPatterns; }
const WordPattern& gpt2_words() { return kPatterns[0]; }
const WordPattern& llama3_words() { return kPatterns[1]; }

const WordPattern* word_pattern_of(std::string_view regex) {
  for (const WordPattern& pattern : kPatterns)
    if (pattern.regex == regex) return &pattern;
  return nullptr;
}

}  // namespace megacpp::data::bpe
