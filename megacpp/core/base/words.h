// SPDX-License-Identifier: Apache-2.0
// The words of an enum class: one table says how each of its values is written in texts, and what it means. Reading,
// printing, the choices of a setting and their documentation come from that table; no code compares the words.
//
// A table stands beside its enum, where argument-dependent lookup finds it:
//   enum class Offload : uint8_t { none, all };
//   constexpr auto words_of(Offload) {
//     return std::to_array<base::Word<Offload>>({{Offload::none, "none"}, {Offload::all, "all", "both"}});
//   }
#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "megacpp/core/base/error.h"

namespace megacpp::base {

template <typename Enum>
struct Word {
  Enum value;
  std::string_view name;
  std::string_view doc = {};  // what it means; empty: the documentation of its setting says so
};

/// An enum class with a table of words.
template <typename Enum>
concept HasWords = std::is_enum_v<Enum> && requires(Enum value) {
  { words_of(value)[0] } -> std::convertible_to<Word<Enum>>;
};

/// The word of the value.
template <HasWords Enum>
std::string_view text_of(Enum value) {
  for (const Word<Enum>& word : words_of(value))
    if (word.value == value) return word.name;
  MEGACPP_CHECK(false) << "value " << static_cast<int64_t>(value) << " has no word in the table of its enum";
  return {};
}

/// False, and the value as it was, for a text that is no word of the enum.
template <HasWords Enum>
bool read_text(std::string_view text, Enum& value) {
  for (const Word<Enum>& word : words_of(value)) {
    if (word.name != text) continue;
    value = word.value;
    return true;
  }
  return false;
}

/// All words, in the order of the table.
template <HasWords Enum>
std::vector<std::string> all_words() {
  std::vector<std::string> names;
  for (const Word<Enum>& word : words_of(Enum{})) names.emplace_back(word.name);
  return names;
}

}  // namespace megacpp::base
