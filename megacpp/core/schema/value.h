// SPDX-License-Identifier: Apache-2.0
// The kinds of values a setting may have, and their text: what a YAML scalar or --set gives, what a resolved file
// shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "megacpp/core/base/words.h"
#include "megacpp/core/schema/byte_size.h"

namespace megacpp::schema {

/// The alternatives stand in the order of Member's; a TextValue is a text.
enum class Kind { integer, number, flag, text, list, bytes };

/// A value that is no text itself and has one in recipes: an enum with its words, or a type with text_of and read_text
/// beside it.
struct TextValue {
  void* value;
  std::string (*text)(const void* value);
  /// False, and the value as it was, for a text that says none.
  bool (*read)(std::string_view text, void* value);
};

/// The member that stores a value.
using Member = std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*, ByteSize*, TextValue>;

template <typename Value>
Member member_at(Value* value) {
  if constexpr (std::is_constructible_v<Member, Value*>) {
    return value;
  } else {
    using base::read_text, base::text_of;
    return TextValue{value, [](const void* at) { return std::string(text_of(*static_cast<const Value*>(at))); },
                     [](std::string_view text, void* at) { return read_text(text, *static_cast<Value*>(at)); }};
  }
}

inline Kind kind_of(const Member& member) {
  return std::holds_alternative<TextValue>(member) ? Kind::text : static_cast<Kind>(member.index());
}
std::string_view kind_name(Kind kind);  // "an integer"

/// The value as YAML text, e.g. 0.02, .inf, "A|E", [a.txt, b.txt].
std::string value_text(const Member& member);

/// The text of a setting of kind text, as it is; none of another kind.
std::optional<std::string> plain_text(const Member& member);

/// Stores the value of a scalar; a list gets it as its only item. False, and the value unspecified, for a text of
/// another kind, for an empty one, and for one that is no value of a TextValue.
bool read_scalar(const std::string& text, const Member& member);

/// True for an integer that 64 bits do not hold.
bool is_beyond_counting(const std::string& text);

}  // namespace megacpp::schema
