// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/next_for_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "megacpp/core/schema/byte_size.h"

namespace megacpp::schema {

namespace {

constexpr std::array<std::string_view, 5> kTrue = {"true", "yes", "on", "y", "1"};
constexpr std::array<std::string_view, 5> kFalse = {"false", "no", "off", "n", "0"};

/// Of the words that YAML once had for them, and those of other languages.
std::optional<std::string> nearest_boolean(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::ranges::find(kTrue, text) != kTrue.end()) return "true";
  if (std::ranges::find(kFalse, text) != kFalse.end()) return "false";
  return std::nullopt;
}

}  // namespace

std::string next_for_kind(const KeySpec& key, const std::string& text) {
  if (const auto truth = key.kind == Kind::flag ? nearest_boolean(text) : std::nullopt)
    return "did you mean " + *truth + "?";
  const auto size = key.kind == Kind::bytes ? nearest_byte_size(text) : std::nullopt;
  return size ? "did you mean '" + *size + "'?" : meaning_of(key);
}

}  // namespace megacpp::schema
