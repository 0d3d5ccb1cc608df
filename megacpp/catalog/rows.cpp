// SPDX-License-Identifier: Apache-2.0
#include "megacpp/catalog/rows.h"

#include <fmt/format.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "megacpp/base/json.h"

namespace megacpp::catalog {
namespace {

using base::Json;

[[noreturn]] void refuse_row(const Statement& row, const std::string& why) {
  refuse_file(row.file(), "a damaged row: " + why);
}

/// The column `name` as JSON of this kind.
Json parsed(const Statement& row, int column, const std::string& name, Json::value_t kind) {
  Json json;
  try {
    json = base::parse_json(row.text(column), base::Code::E1701, name);
  } catch (const base::Error& error) {
    refuse_row(row, error.problem().where + ": " + error.problem().got);
  }
  if (json.type() != kind) refuse_row(row, fmt::format("{}: {}", name, base::kind_name(json)));
  return json;
}

std::string text_of(const Json& value) {
  const std::string* text = base::as_text(value);
  return text == nullptr ? base::to_text(value) : *text;
}

}  // namespace

Signature read_signature(const Statement& row, int first) {
  return {.build = {.code_version = row.text(first),
                    .platform = row.text(first + 1),
                    .threads = row.integer(first + 2),
                    .processor = row.text(first + 3)},
          .hardware = row.text(first + 4),
          .model = row.text(first + 5),
          .model_hash = row.text(first + 6),
          .layout = row.text(first + 7),
          .features = row.text(first + 8),
          .shape = row.text(first + 9)};
}

Outcome read_outcome(const Statement& row, int first) {
  Outcome outcome{.at = row.text(first),
                  .ending = row.integer(first + 1) != 0 ? Ending::fits : Ending::fails,
                  .oom_class = row.text(first + 2),
                  .phase = row.text(first + 3),
                  .rung = row.integer(first + 4),
                  .chip = row.text(first + 5),
                  .predicted_bytes = row.maybe_integer(first + 6),
                  .measured_bytes = row.maybe_integer(first + 7),
                  .limit_bytes = row.maybe_integer(first + 8),
                  .predicted_seconds = row.maybe_real(first + 9),
                  .measured_seconds = row.maybe_real(first + 10),
                  .note = row.text(first + 11)};
  if (!row.text(first + 12).empty())
    outcome.report = oom_report_of(parsed(row, first + 12, "report", Json::value_t::object));
  return outcome;
}

Start read_start(const Statement& row, int first) {
  Start start = {.at = row.text(first), .rung = row.integer(first + 1)};
  const Json settings = parsed(row, first + 2, "settings", Json::value_t::object);
  for (const auto& [key, value] : settings.items()) start.settings.emplace_back(key, text_of(value));
  const Json reasons = parsed(row, first + 3, "reasons", Json::value_t::array);
  for (const Json& reason : reasons) start.reasons.push_back(text_of(reason));
  return start;
}

std::string report_text(const std::optional<OomReport>& report) {
  return report ? base::to_text(to_json(*report)) : "";
}

std::string settings_text(const std::vector<Setting>& settings) {
  Json::object_t members;
  for (const auto& [name, value] : settings) members.emplace_back(name, value);
  return base::to_text(Json(std::move(members)));
}

std::string reasons_text(const std::vector<std::string>& reasons) { return base::to_text(Json(reasons)); }

Sample read_sample(const Statement& row, int first) {
  Sample sample = {.at = row.text(first),
                   .lane = row.text(first + 1),
                   .quantity = row.text(first + 2),
                   .measured = row.real(first + 4)};
  const Json parts = parsed(row, first + 3, "parts", Json::value_t::object);
  for (const auto& [name, value] : parts.items()) sample.parts.push_back({name, base::as_number(value).value_or(NAN)});
  const auto is_sound = [](double value) { return std::isfinite(value) && value > 0; };
  if (!is_sound(total(sample.parts))) refuse_row(row, "parts: no prediction");
  if (!is_sound(sample.measured)) refuse_row(row, fmt::format("measured: {}", sample.measured));
  return sample;
}

std::string parts_text(const std::vector<Part>& parts) {
  Json::object_t members;
  for (const Part& part : parts) members.emplace_back(part.name, part.value);
  return base::to_text(Json(std::move(members)));
}

}  // namespace megacpp::catalog
