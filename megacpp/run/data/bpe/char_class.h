// SPDX-License-Identifier: Apache-2.0
// Classes of characters by which text is split into words: \p{L}, \p{N}, \s, and all others. Beyond ASCII they are
// asked of PCRE2 once, so that hand-written matchers and expressions agree on every character.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace megacpp::data::bpe {

enum class CharClass : uint8_t { other, letter, number, space };

inline constexpr auto kAsciiClass = [] {
  std::array<CharClass, 128> table{};
  for (int c = 'a'; c <= 'z'; ++c)
    table[static_cast<size_t>(c)] = table[static_cast<size_t>(c - 32)] = CharClass::letter;
  for (int c = '0'; c <= '9'; ++c) table[static_cast<size_t>(c)] = CharClass::number;
  for (const char c : {'\t', '\n', '\v', '\f', '\r', ' '}) table[static_cast<size_t>(c)] = CharClass::space;
  return table;
}();

/// Of any character; the first call for one beyond ASCII takes some 10 ms.
CharClass class_of_point(uint32_t point);

/// \w
bool is_word_point(uint32_t point);

}  // namespace megacpp::data::bpe
