// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/prometheus.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/utf8.h"

namespace megacpp::metrics {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Names of metrics might have colons too, but these are for rules of a Prometheus server.
bool is_name(std::string_view name) {
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c); });
}

/// Backslashes, ends of lines and, in a label, quotes.
std::string escaped(std::string_view text, bool is_label) {
  std::string out;
  for (const char c : base::printable(text)) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\\' || (c == '"' && is_label))
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string labels_text(const std::vector<Label>& labels) {
  std::string text;
  for (const Label& label : labels) {
    MEGACPP_CHECK(is_name(label.name)) << "a label called '" << label.name << "'";
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", label.name, escaped(label.value, true));
  }
  return text.empty() ? "" : "{" + text + "}";
}

}  // namespace

std::string metrics_text(const std::vector<MetricFamily>& families) {
  std::string text;
  for (const MetricFamily& family : families) {
    const bool is_counter = family.kind == MetricKind::counter;
    MEGACPP_CHECK(is_name(family.name) && !family.help.empty()) << "a metric called '" << family.name << "'";
    MEGACPP_CHECK(family.name.ends_with("_total") == is_counter) << family.name << " is no name of its kind";
    if (family.samples.empty()) continue;
    text += fmt::format("# HELP {} {}\n", family.name, escaped(family.help, false));
    text += fmt::format("# TYPE {} {}\n", family.name, is_counter ? "counter" : "gauge");
    for (const Sample& sample : family.samples)
      text += fmt::format("{}{} {}\n", family.name, labels_text(sample.labels), number_text(sample.value));
  }
  return text;
}

}  // namespace megacpp::metrics
