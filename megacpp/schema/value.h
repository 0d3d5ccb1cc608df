// SPDX-License-Identifier: Apache-2.0
// The kinds of values a setting may have, and their text: what a YAML scalar or --set gives, what a resolved file
// shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "megacpp/schema/byte_size.h"

namespace megacpp::schema {

/// The alternatives stand in the order of Member's.
enum class Kind { integer, number, flag, text, list, bytes };
/// Where a value is stored.
using Member = std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*, ByteSize*>;

inline Kind kind_of(const Member& member) { return static_cast<Kind>(member.index()); }
std::string_view kind_name(Kind kind);  // "an integer"

/// The value as YAML text, e.g. 0.02, .inf, "A|E", [a.txt, b.txt].
std::string value_text(const Member& member);

/// Stores the value of a scalar; a list gets it as its only item. False, and the value unspecified, for a text of
/// another kind and for an empty one.
bool read_scalar(const std::string& text, const Member& member);

/// Whether the text is an integer that 64 bits do not hold.
bool is_beyond_counting(const std::string& text);

}  // namespace megacpp::schema
