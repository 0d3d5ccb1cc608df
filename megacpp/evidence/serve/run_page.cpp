// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/run_page.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/evidence/http/request.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/report/line_chart.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/evidence/serve/memory_map.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::serve {
namespace {

using receipt::EndingKind;
using receipt::Receipt;

constexpr size_t kMostDrawnPoints = 150;  // of a metric: charts are sent again at every log

bool is_running(const Receipt& receipt) { return receipt.ending.kind == EndingKind::running; }

std::string state_banner(const Receipt& receipt) {
  if (is_running(receipt)) return banner("running", Tone::good);
  const Tone tone = receipt.verdict.is_comparable() ? Tone::good : Tone::bad;
  std::string text =
      banner(fmt::format("{}, {}", base::text_of(receipt.ending.kind), receipt::to_text(receipt.verdict)), tone);
  for (const receipt::Reason& reason : receipt.verdict.reasons) text += paragraph(reason.sentence);
  if (const std::optional<receipt::Failure>& failure = receipt.ending.failure)
    text += paragraph(fmt::format("{} {}: {}. Next: {}", failure->code, failure->where, failure->got, failure->next));
  return text;
}

/// The script of the page looks for data-ended (assets.h).
std::string steps_html(const receipt::Ending& ending) {
  return fmt::format(
      "<p{4}><label>{0} of {1} steps <progress max=\"{2}\" value=\"{3}\">{0} of {1}</progress></label></p>\n",
      ending.steps, ending.requested_steps, std::max<int64_t>(1, ending.requested_steps),
      std::clamp<int64_t>(ending.steps, 0, std::max<int64_t>(1, ending.requested_steps)),
      ending.kind == EndingKind::running ? "" : " data-ended=\"\"");
}

/// At the speed of the last log; empty for a run that has ended.
std::string left_text(const Receipt& receipt, const LogPoint& last) {
  const int64_t steps = receipt.ending.requested_steps - last.step - 1;
  if (!is_running(receipt) || steps <= 0 || !last.tokens_per_second || receipt.header.batch.tokens <= 0) return "";
  const double tokens = static_cast<double>(steps) * static_cast<double>(receipt.header.batch.tokens);
  return fmt::format(", about {} left", base::human_seconds(tokens / *last.tokens_per_second));
}

std::string last_point_html(const Receipt& receipt, const LogPoint& last) {
  const std::string loss = last.loss ? fmt::format(", loss {:.4f}", *last.loss) : "";
  const std::string speed = last.tokens_per_second ? fmt::format(", {:.0f} tokens/s", *last.tokens_per_second) : "";
  return paragraph(fmt::format("step {}{}{}{}", last.step + 1, loss, speed, left_text(receipt, last)));
}

struct Metric {
  std::string name;
  std::function<std::optional<double>(const LogPoint&)> value;
  report::NumberText text;
};

std::string metric_chart(const std::vector<LogPoint>& points, const Metric& metric) {
  std::vector<report::CurvePoint> curve;
  for (const LogPoint& point : points)
    if (const std::optional<double> value = metric.value(point))
      curve.push_back({static_cast<double>(point.step), *value});
  if (curve.empty()) return "";
  report::LineChart chart{.x_title = "step",
                          .y_title = metric.name,
                          .x_text = [](double step) { return fmt::format("{:.0f}", step); },
                          .y_text = metric.text,
                          .curves = {}};
  chart.curves.push_back({.name = metric.name, .points = report::thinned(curve, kMostDrawnPoints)});
  return figure(report::lines(chart), metric.name + " over steps");
}

std::string answers_html(const receipt::Answers& answers) {
  const HtmlTable table{.headings = {"question", "answer"},
                        .rows = {{"Which topology?", shown(answers.topology)},
                                 {"Is compiling amortised, or cold?", shown(answers.compile)},
                                 {"Which length and workload?", shown(answers.workload)},
                                 {"Did it stay on its path?", shown(answers.path)},
                                 {"Does a gain hold on the target shape?", shown(answers.target)}}};
  return heading("Five answers") + to_html(table);
}

std::string step_parts_html(const receipt::Times& times) {
  if (!times.parts) return "";
  const receipt::Parts& parts = *times.parts;
  const report::BarChart chart{
      .series = {"arithmetic", "memory", "links", "bubble", "other"},
      .bars = {{"a step", {parts.arithmetic, parts.memory, parts.links, parts.bubble, parts.other}}},
      .text = base::human_seconds};
  return heading("Parts of a step") + figure(report::stacked_bars(chart), "seconds of a steady step");
}

std::string collectives_html(const Receipt& receipt) {
  if (!receipt.collectives || receipt.collectives->empty()) return "";
  HtmlTable table{.headings = {">stage", "axes", "kind", ">calls", ">bytes"}};
  for (const receipt::Collective& each : *receipt.collectives)
    table.rows.push_back({std::to_string(each.stage), shown(each.axes), shown(each.kind), std::to_string(each.calls),
                          memory::human_bytes(each.bytes)});
  return heading("Collectives of a step") + to_html(table);
}

std::string ladder_html(const receipt::Ladder& ladder) {
  if (ladder.tried.empty()) return "";
  HtmlTable table{
      .caption = fmt::format("ran at rung {}{}", ladder.rung, ladder.changes.empty() ? "" : ": " + ladder.changes),
      .headings = {">rung", "reduction", "outcome", "reason"}};
  for (const catalog::Reduction& tried : ladder.tried)
    table.rows.push_back({std::to_string(tried.rung), shown(tried.name), shown(tried.outcome), shown(tried.reason)});
  return heading("Ladder") + to_html(table);
}

std::string experts_html(const std::vector<receipt::ExpertLoad>& experts) {
  if (experts.empty()) return "";
  HtmlTable table{.headings = {"block", ">experts", ">busiest over the mean", ">dropped"}};
  for (const receipt::ExpertLoad& load : experts)
    table.rows.push_back({shown(load.block), std::to_string(load.share.size()), fmt::format("{:.2f}", load.imbalance),
                          fmt::format("{:.0f}", load.dropped)});
  return heading("Expert load") + to_html(table);
}

std::string folded_html(const char* summary, const std::string& text) {
  return fmt::format("<details>\n<summary>{}</summary>\n<pre>{}</pre>\n</details>\n", summary, shown(text));
}

}  // namespace

std::string progress_html(const RunDetails& run) {
  if (!run.problem.empty()) return banner(run.problem, Tone::bad);
  std::string text = state_banner(run.receipt) + steps_html(run.receipt.ending);
  return run.points.empty() ? text : text + last_point_html(run.receipt, run.points.back());
}

std::string charts_html(const RunDetails& run) {
  const std::vector<Metric> metrics = {{"loss", [](const LogPoint& point) { return point.loss; },
                                        [](double loss) { return fmt::format("{:.3f}", loss); }},
                                       {"tokens/s", [](const LogPoint& point) { return point.tokens_per_second; },
                                        [](double speed) { return fmt::format("{:.0f}", speed); }},
                                       {"gradient norm", [](const LogPoint& point) { return point.grad_norm; },
                                        [](double norm) { return fmt::format("{:.3g}", norm); }}};
  std::string text;
  for (const Metric& metric : metrics) text += metric_chart(run.points, metric);
  return text.empty() ? paragraph("Nothing is logged yet.") : text;
}

Page run_page(const std::string& name, const RunDetails& run) {
  Page page{.title = name, .path = "/", .body = ""};
  page.events = run_path(name) + "/events?stamp=" + http::url_encoded(run.stamp);
  page.body =
      "<div id=\"progress\">\n" + progress_html(run) + "</div>\n<div id=\"charts\">\n" + charts_html(run) + "</div>\n";
  if (!run.problem.empty()) return page;
  const Receipt& receipt = run.receipt;
  page.body += answers_html(receipt.answers) + step_parts_html(receipt.times) + memory_map_html(receipt.memory) +
               collectives_html(receipt) + experts_html(receipt.experts) + ladder_html(receipt.ladder) +
               heading("Receipt") + folded_html("every figure", receipt::report_text(receipt)) +
               folded_html("the recipe", receipt.recipe);
  return page;
}

}  // namespace megacpp::serve
