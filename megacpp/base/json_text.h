// SPDX-License-Identifier: Apache-2.0
// JSON text to a value and back. Objects keep the order of their members and refuse a key given twice.
// Reads also the bare words NaN, Infinity and -Infinity that Python writes; writes only legal JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "megacpp/base/error.h"

namespace megacpp::base {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;
  using Value = std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object>;

  Json() : value_(nullptr) {}
  Json(Value value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  /// The alternative T, or nullptr when the value is of another kind.
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  /// The number as a double, whether written as an integer or not; nothing for other kinds.
  std::optional<double> number() const;
  /// The member called `key`, or nullptr when absent or when this is no object.
  const Json* find(std::string_view key) const;
  template <typename Visitor>
  auto visit(const Visitor& visitor) const {
    return std::visit(visitor, value_);
  }
  /// "null", "a flag", "an integer", ...: for messages.
  std::string_view kind_name() const;

 private:
  Value value_;
};

/// Parses one JSON value that fills the whole text; raises `code` at "where, byte n" otherwise.
Json parse_json(std::string_view text, Code code, const std::string& where);

/// Compact JSON text. Numbers round-trip; non-finite ones become null, since JSON has no word for them.
std::string to_text(const Json& value);

/// `text` as a JSON string literal, quotes included.
std::string json_quoted(std::string_view text);

}  // namespace megacpp::base
