// SPDX-License-Identifier: Apache-2.0
// JSON for the whole project: one value type, one reader, one printer. Objects keep the order of their members.
// This header only declares the type; files that build values or walk through them include <nlohmann/json.hpp>, which
// is large, by themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "megacpp/core/base/error.h"

namespace megacpp::base {

using Json = nlohmann::ordered_json;

/// Parses one JSON value that fills the whole text; raises `code` at "where, byte n" otherwise. Reads also the bare
/// words NaN, Infinity and -Infinity that Python writes. Refuses a key given twice and more than 200 levels.
Json parse_json(std::string_view text, Code code, const std::string& where);

/// Legal JSON: compact, or with members on lines of their own, `indent` columns deeper each level. Numbers round-trip;
/// non-finite ones become null, since JSON has no word for them, and bytes that are no UTF-8 the replacement character.
std::string to_text(const Json& value, int indent = -1);

/// `text` as a JSON string literal, quotes included.
std::string json_quoted(std::string_view text);

/// The member called `key`, or nullptr when absent or when `value` is no object.
const Json* find_member(const Json& value, std::string_view key);

/// The value as this kind, or nothing where it is of another. Numbers written as integers are numbers too.
std::optional<bool> as_flag(const Json& value);
std::optional<int64_t> as_integer(const Json& value);
std::optional<double> as_number(const Json& value);
const std::string* as_text(const Json& value);

/// "null", "a flag", "an integer", ...: for messages.
std::string_view kind_name(const Json& value);

}  // namespace megacpp::base
