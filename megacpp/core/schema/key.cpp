// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/key.h"

#include <fmt/format.h>

namespace megacpp::schema {

std::optional<std::string> nearest_value(const KeySpec& key, double wish) {
  if (key.kind != Kind::integer && key.kind != Kind::number) return std::nullopt;
  return nearest_bound(key.range, wish);
}

std::string meaning_of(const KeySpec& key) { return key.path + ": " + key.doc; }

std::string next_step(const KeySpec& key, const std::string& text) {
  const std::optional<std::string> choice = nearest_choice(text, key.range.choices);
  return choice ? "did you mean '" + *choice + "'?" : meaning_of(key);
}

std::string next_step(const KeySpec& key, const Member& member) {
  if (const auto text = plain_text(member)) return next_step(key, *text);
  std::optional<std::string> value;
  if (const auto* integer = std::get_if<int64_t*>(&member)) value = nearest_value(key, static_cast<double>(**integer));
  if (const auto* number = std::get_if<double*>(&member)) value = nearest_value(key, **number);
  return value ? "set " + key.path + ": " + *value : meaning_of(key);
}

std::string table_row(const KeySpec& key, const std::string& shown) {
  std::string row = fmt::format("| `{}` | {} | {} | {} | ", key.path, kind_name(key.kind), shown, describe(key.range));
  for (const char c : key.doc) row += c == '|' ? std::string("\\|") : std::string(1, c);
  return row + " |\n";
}

}  // namespace megacpp::schema
