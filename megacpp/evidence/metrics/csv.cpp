// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/csv.h"

#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/evidence/metrics/metric.h"

namespace megacpp::metrics {
namespace {

using Row = std::map<std::string, std::string>;  // field by column

Row row_of(const std::vector<MetricValue>& values, const train::StepReport& report) {
  Row row;
  for (const MetricValue& value : values) row[value.name] = fmt::format("{}", value.value);
  row[kStepSeconds] = fmt::format("{}", fmt::join(report.step_seconds, " "));
  return row;
}

void append_line(const std::vector<std::string>& fields, std::string& text) {
  for (size_t i = 0; i < fields.size(); ++i) text += (i == 0 ? "" : ",") + csv_field(fields[i]);
  text += "\r\n";
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_text(const std::vector<train::StepReport>& reports) {
  std::vector<std::string> columns;
  for (const Metric& metric : all_metrics()) columns.emplace_back(metric.name);
  columns.emplace_back(kStepSeconds);
  std::set<std::string> known(columns.begin(), columns.end());
  std::vector<Row> rows;
  for (const train::StepReport& report : reports) {
    const std::vector<MetricValue> values = values_of(report);
    for (const MetricValue& value : values)
      if (known.insert(value.name).second) columns.push_back(value.name);
    rows.push_back(row_of(values, report));
  }
  std::string text;
  append_line(columns, text);
  for (const Row& row : rows) {
    std::vector<std::string> fields;
    for (const std::string& column : columns) {
      const auto at = row.find(column);
      fields.push_back(at == row.end() ? "" : at->second);
    }
    append_line(fields, text);
  }
  return text;
}

}  // namespace megacpp::metrics
