// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/run_charts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/evidence/report/line_chart.h"
#include "megacpp/evidence/report/svg.h"

namespace megacpp::report {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

double loss_of(const train::StepReport& report) { return report.loss.value_or(kNoNumber); }

double rate_of(const train::StepReport& report) {
  const double seconds = report.seconds - report.saving_seconds;
  return seconds > 0 ? static_cast<double>(report.tokens) / seconds : kNoNumber;
}

std::string step_number(double step) { return fmt::format("{:.0f}", step); }
std::string short_number(double number) { return fmt::format("{:.5g}", number); }
std::string rate_text(double rate) { return fmt::format("{:.6g}", rate); }

using StepNumber = double (*)(const train::StepReport&);

std::vector<Curve> curves_of(const Runs& runs, StepNumber number) {
  std::vector<Curve> curves;
  for (size_t i = 0; i < std::min(runs.size(), kMostCurves); ++i) {
    if (runs[i].log.empty()) continue;
    Curve curve{.name = runs[i].name, .colour = colour_of(i), .points = {}};
    for (const train::StepReport& report : runs[i].log)
      curve.points.push_back({.x = static_cast<double>(report.step), .y = number(report)});
    curves.push_back(std::move(curve));
  }
  return curves;
}

bool has_numbers(const std::vector<Curve>& curves) {
  return std::ranges::any_of(curves, [](const Curve& curve) {
    return std::ranges::any_of(curve.points, [](const CurvePoint& point) { return is_drawn(point.y); });
  });
}

/// Where figures begin, of one run alone: the marks of several would cover each other.
std::vector<Mark> steady_marks(const Runs& runs) {
  if (runs.size() != 1 || !runs[0].receipt || !runs[0].receipt->times.steady) return {};
  const Mark mark{.value = static_cast<double>(runs[0].receipt->times.steady->first_step), .label = "steady from step"};
  return {mark};
}

std::optional<std::string> chart_by_step(LineChart chart) {
  if (!has_numbers(chart.curves)) return std::nullopt;
  chart.x_title = "step";
  chart.x_text = step_number;
  return lines(chart);
}

/// By block, points in the order of the log.
std::map<std::string, std::vector<CurvePoint>> imbalances_of(const RunRecord& run) {
  std::map<std::string, std::vector<CurvePoint>> blocks;
  for (const train::StepReport& report : run.log)
    for (const train::ExpertShares& shares : report.experts)
      blocks[shares.block].push_back({.x = static_cast<double>(report.step), .y = shares.imbalance()});
  return blocks;
}

double most_of(const Curve& curve) {
  double most = 0;
  for (const CurvePoint& point : curve.points)
    if (is_drawn(point.y)) most = std::max(most, point.y);
  return most;
}

}  // namespace

std::optional<std::string> loss_chart(const Runs& runs) {
  LineChart chart{.x_title = "", .y_title = "loss", .x_text = {}, .y_text = short_number, .curves = {}};
  chart.curves = curves_of(runs, loss_of);
  chart.marks = steady_marks(runs);
  return chart_by_step(std::move(chart));
}

std::optional<std::string> throughput_chart(const Runs& runs) {
  LineChart chart{.x_title = "", .y_title = "tokens/s", .x_text = {}, .y_text = rate_text, .curves = {}};
  chart.curves = curves_of(runs, rate_of);
  chart.marks = steady_marks(runs);
  return chart_by_step(std::move(chart));
}

std::optional<std::string> parts_chart(const Runs& runs) {
  BarChart chart{
      .series = {"arithmetic", "memory", "links", "bubble", "other"}, .bars = {}, .text = base::human_seconds};
  for (const RunRecord& run : runs) {
    if (!run.receipt || !run.receipt->times.parts || chart.bars.size() == kMostCurves) continue;
    const receipt::Parts& parts = *run.receipt->times.parts;
    Bar bar{.label = run.name, .values = {}};
    for (const double seconds : {parts.arithmetic, parts.memory, parts.links, parts.bubble, parts.other})
      bar.values.push_back(bar_value(seconds));
    chart.bars.push_back(std::move(bar));
  }
  return chart.bars.empty() ? std::nullopt : std::optional(stacked_bars(chart));
}

std::optional<std::string> imbalance_chart(const RunRecord& run) {
  std::vector<Curve> curves;
  for (auto& [block, points] : imbalances_of(run)) curves.push_back({.name = block, .points = points});
  std::ranges::stable_sort(curves, std::ranges::greater{}, most_of);
  curves.resize(std::min(curves.size(), kSeriesColours));
  for (size_t i = 0; i < curves.size(); ++i) curves[i].colour = colour_of(i);
  LineChart chart{
      .x_title = "", .y_title = "busiest over mean", .x_text = {}, .y_text = short_number, .curves = std::move(curves)};
  return chart_by_step(std::move(chart));
}

size_t steps_with_loss(const RunRecord& run) {
  return static_cast<size_t>(
      std::ranges::count_if(run.log, [](const train::StepReport& report) { return is_drawn(loss_of(report)); }));
}

}  // namespace megacpp::report
