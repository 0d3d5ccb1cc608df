// SPDX-License-Identifier: Apache-2.0
#include "megacpp/catalog/rows.h"

#include <fmt/format.h>

#include <cmath>

#include "megacpp/base/json_text.h"

namespace megacpp::catalog {
namespace {

using base::Json;

[[noreturn]] void refuse_row(const Statement& row, const std::string& why) {
  refuse_file(row.file(), "a damaged row: " + why);
}

/// The column `name` as JSON of the kind T.
template <typename T>
T parsed(const Statement& row, int column, const std::string& name) {
  Json json;
  try {
    json = base::parse_json(row.text(column), base::Code::E1701, name);
  } catch (const base::Error& error) {
    refuse_row(row, error.problem().where + ": " + error.problem().got);
  }
  const T* value = json.get_if<T>();
  if (value == nullptr) refuse_row(row, fmt::format("{}: {}", name, json.kind_name()));
  return *value;
}

std::string text_of(const Json& value) {
  const auto* text = value.get_if<std::string>();
  return text == nullptr ? base::to_text(value) : *text;
}

/// The JSON texts that `item` makes, between brackets.
template <typename Items, typename Item>
std::string bracketed(const char* brackets, const Items& items, const Item& item) {
  std::string text(1, brackets[0]);
  for (const auto& each : items) text += (text.size() > 1 ? "," : "") + item(each);
  return text + brackets[1];
}

}  // namespace

Signature read_signature(const Statement& row, int first) {
  return {.code_version = row.text(first),
          .hardware = row.text(first + 1),
          .model = row.text(first + 2),
          .model_hash = row.text(first + 3),
          .layout = row.text(first + 4),
          .features = row.text(first + 5),
          .shape = row.text(first + 6)};
}

Outcome read_outcome(const Statement& row, int first) {
  return {.at = row.text(first),
          .ending = row.integer(first + 1) != 0 ? Ending::fits : Ending::fails,
          .oom_class = row.text(first + 2),
          .stage = row.text(first + 3),
          .rung = row.integer(first + 4),
          .chip = row.text(first + 5),
          .predicted_bytes = row.maybe_integer(first + 6),
          .measured_bytes = row.maybe_integer(first + 7),
          .limit_bytes = row.maybe_integer(first + 8),
          .predicted_seconds = row.maybe_real(first + 9),
          .measured_seconds = row.maybe_real(first + 10),
          .note = row.text(first + 11)};
}

Start read_start(const Statement& row, int first) {
  Start start = {.at = row.text(first), .rung = row.integer(first + 1)};
  for (const auto& [key, value] : parsed<Json::Object>(row, first + 2, "settings"))
    start.settings.emplace_back(key, text_of(value));
  for (const Json& reason : parsed<Json::Array>(row, first + 3, "reasons")) start.reasons.push_back(text_of(reason));
  return start;
}

std::string settings_text(const std::vector<Setting>& settings) {
  return bracketed("{}", settings, [](const Setting& setting) {
    return base::json_quoted(setting.first) + ":" + base::json_quoted(setting.second);
  });
}

std::string reasons_text(const std::vector<std::string>& reasons) {
  return bracketed("[]", reasons, [](const std::string& reason) { return base::json_quoted(reason); });
}

Sample read_sample(const Statement& row, int first) {
  Sample sample = {.at = row.text(first),
                   .lane = row.text(first + 1),
                   .quantity = row.text(first + 2),
                   .measured = row.real(first + 4)};
  for (const auto& [name, value] : parsed<Json::Object>(row, first + 3, "parts"))
    sample.parts.push_back({name, value.number().value_or(NAN)});
  const auto is_sound = [](double value) { return std::isfinite(value) && value > 0; };
  if (!is_sound(total(sample.parts))) refuse_row(row, "parts: no prediction");
  if (!is_sound(sample.measured)) refuse_row(row, fmt::format("measured: {}", sample.measured));
  return sample;
}

std::string parts_text(const std::vector<Part>& parts) {
  return bracketed("{}", parts,
                   [](const Part& part) { return base::json_quoted(part.name) + fmt::format(":{}", part.value); });
}

}  // namespace megacpp::catalog
