// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/run_page.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/evidence/http/request.h"
#include "megacpp/evidence/report/line_chart.h"
#include "megacpp/evidence/report/run_charts.h"
#include "megacpp/evidence/report/run_sections.h"

namespace megacpp::serve {
namespace {

using receipt::EndingKind;
using receipt::Receipt;
using Tone = report::Page::Tone;

constexpr size_t kMostDrawnPoints = 150;  // of a metric: charts are sent again at every log

bool is_running(const Receipt& receipt) { return receipt.ending.kind == EndingKind::running; }

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

std::string last_point_text(const Receipt& receipt, const LogPoint& last) {
  const std::string loss = last.loss ? fmt::format(", loss {:.4f}", *last.loss) : "";
  const std::string speed = last.tokens_per_second ? fmt::format(", {:.0f} tokens/s", *last.tokens_per_second) : "";
  return fmt::format("step {}{}{}{}", last.step + 1, loss, speed, left_text(receipt, last));
}

struct Metric {
  std::string name;
  std::function<std::optional<double>(const LogPoint&)> value;
  report::NumberText text;
};

void add_chart(report::Page& part, const std::vector<LogPoint>& points, const Metric& metric) {
  std::vector<report::CurvePoint> curve;
  for (const LogPoint& point : points)
    if (const std::optional<double> value = metric.value(point))
      curve.push_back({static_cast<double>(point.step), *value});
  if (curve.empty()) return;
  report::LineChart chart{.x_title = "step",
                          .y_title = metric.name,
                          .x_text = [](double step) { return fmt::format("{:.0f}", step); },
                          .y_text = metric.text,
                          .curves = {}};
  chart.curves.push_back({.name = metric.name, .points = report::thinned(curve, kMostDrawnPoints)});
  part.figure(report::lines(chart), metric.name + " over steps");
}

}  // namespace

std::string progress_html(const RunDetails& run) {
  report::Page part;
  if (!run.problem.empty()) {
    part.banner(run.problem, Tone::bad);
    return part.body();
  }
  const Receipt& receipt = run.receipt;
  if (is_running(receipt)) {
    part.banner("running", Tone::good);
  } else {
    report::add_verdict(part, receipt);
    report::add_ending(part, receipt.ending);
  }
  part.html(steps_html(receipt.ending));
  if (!run.points.empty()) part.paragraph(last_point_text(receipt, run.points.back()));
  return part.body();
}

std::string charts_html(const RunDetails& run) {
  const std::vector<Metric> metrics = {{"loss", [](const LogPoint& point) { return point.loss; },
                                        [](double loss) { return fmt::format("{:.3f}", loss); }},
                                       {"tokens/s", [](const LogPoint& point) { return point.tokens_per_second; },
                                        [](double speed) { return fmt::format("{:.0f}", speed); }},
                                       {"gradient norm", [](const LogPoint& point) { return point.grad_norm; },
                                        [](double norm) { return fmt::format("{:.3g}", norm); }}};
  report::Page part;
  for (const Metric& metric : metrics) add_chart(part, run.points, metric);
  if (part.body().empty()) part.paragraph("Nothing is logged yet.");
  return part.body();
}

Page run_page(const std::string& name, const RunDetails& run) {
  Page page{.title = name, .path = "/", .events = run_path(name) + "/events?stamp=" + http::url_encoded(run.stamp)};
  page.body.html("<div id=\"progress\">\n" + progress_html(run) + "</div>\n<div id=\"charts\">\n" + charts_html(run) +
                 "</div>\n");
  if (!run.problem.empty()) return page;
  const report::RunRecord record{.name = name, .path = {}, .receipt = run.receipt};
  page.body.heading("Five answers");
  report::add_answers(page.body, run.receipt.answers);
  if (const std::optional<std::string> parts = report::parts_chart({record}))
    page.body.figure(*parts, "Where the time of a steady step went.");
  page.body.heading("The run");
  report::add_details(page.body, record);
  return page;
}

}  // namespace megacpp::serve
