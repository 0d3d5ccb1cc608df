// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/sweep_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/compare_report.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/core/stats/effect.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::cli {
namespace {

using sweep::ValueResult;

// Against the first value: the change of the time a token takes, or why there is none.
std::string against_text(const ValueResult& result) {
  if (!result.against_first) return result.runs.empty() ? "" : "baseline";
  const compare::Comparison& comparison = *result.against_first;
  if (!comparison.among_repeats.empty())
    return "confounded: repeats differ in " + comparison.among_repeats.front().name;
  if (comparison.is_confounded()) return fmt::format("confounded: {} differences", comparison.differences.axes.size());
  if (!comparison.objections.empty()) return "not comparable: " + comparison.objections.front().sentence;
  const stats::Effect& effect = *comparison.effect;
  if (effect.finding == stats::Finding::too_short)
    return fmt::format("too short: {} wanted", base::counted(comparison.recommended_steps, "step"));
  const std::string range =
      effect.high ? fmt::format(" ({:+.1f} % to {:+.1f} %)", 100 * (effect.low - 1), 100 * (*effect.high - 1)) : "";
  const char* const word = effect.finding == stats::Finding::lower    ? "faster"
                           : effect.finding == stats::Finding::higher ? "slower"
                                                                      : "no difference";
  return fmt::format("{}: {:+.1f} % time a token{}", word, 100 * (effect.ratio - 1), range);
}

std::string bars_text(const std::vector<ValueResult>& results) {
  constexpr double kWidth = 50;
  double most = 0;
  size_t widest = 0;
  for (const ValueResult& result : results) {
    most = std::max(most, result.tokens_per_second.value_or(0));
    widest = std::max(widest, result.value.size());
  }
  std::string text;
  for (const ValueResult& result : results) {
    const double rate = result.tokens_per_second.value_or(0);
    const auto length = most > 0 ? static_cast<size_t>(std::lround(kWidth * rate / most)) : 0;
    text += fmt::format("{:>{}} |{}{}\n", base::printable_in_line(result.value), widest, std::string(length, '#'),
                        rate > 0 ? fmt::format(" {:.0f} tokens/s", rate) : " nothing measured");
  }
  return text;
}

}  // namespace

std::string sweep_text(const sweep::Sweep& sweep, const std::vector<ValueResult>& results) {
  TextTable table({sweep.axis.key, ">runs", ">chips", ">tokens/s", ">step", ">peak", "against the first"});
  for (const ValueResult& result : results) {
    table.add({result.value, std::to_string(result.runs.size()), result.chips ? std::to_string(*result.chips) : "",
               result.tokens_per_second ? fmt::format("{:.0f}", *result.tokens_per_second) : "",
               result.step_seconds ? base::human_seconds(*result.step_seconds) : "",
               result.planned_peak_bytes ? memory::human_bytes(*result.planned_peak_bytes) : "", against_text(result)});
    for (const std::string& error : result.errors) table.add_line("    " + error);
  }
  return table.to_text() + "\n" + bars_text(results);
}

std::string sweep_svg(const sweep::Sweep& sweep, const std::vector<ValueResult>& results) {
  report::BarChart chart{.series = {"tokens/s by " + sweep.axis.key}, .bars = {}, .text = [](double rate) {
                           return fmt::format("{:.0f} tokens/s", rate);
                         }};
  for (const ValueResult& result : results)
    if (result.tokens_per_second) chart.bars.push_back({.label = result.value, .values = {*result.tokens_per_second}});
  return report::as_file(report::stacked_bars(chart));
}

Json sweep_json(const sweep::Sweep& sweep, const std::vector<ValueResult>& results) {
  Json values = Json::array();
  for (const ValueResult& result : results)
    values.push_back(
        Json{{"value", result.value},
             {"runs", result.runs},
             {"errors", result.errors},
             {"chips", base::record_json(result.chips)},
             {"tokens_per_second", base::record_json(result.tokens_per_second)},
             {"step_seconds", base::record_json(result.step_seconds)},
             {"planned_peak_bytes", base::record_json(result.planned_peak_bytes)},
             {"against_first", result.against_first ? runs_comparison_json(*result.against_first) : Json()}});
  return {{"folder", sweep.folder.string()},
          {"axis", sweep.axis.key},
          {"repeats", sweep.repeats},
          {"was_stopped", sweep.was_stopped},
          {"values", values}};
}

}  // namespace megacpp::cli
