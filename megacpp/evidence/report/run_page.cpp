// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/run_page.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/stats/effect.h"
#include "megacpp/evidence/compare/sides.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/report/comparison_section.h"
#include "megacpp/evidence/report/line_chart.h"
#include "megacpp/evidence/report/run_charts.h"
#include "megacpp/evidence/report/run_sections.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::report {
namespace {

using base::human_seconds;
using compare::Comparison;
using receipt::Receipt;

std::string page_title(const Runs& runs) {
  return runs.size() == 1 ? runs[0].name : fmt::format("{} runs", runs.size());
}

void add_problems(Page& page, const Runs& runs) {
  Table table{.headings = {"run", "file", "what is wrong", "what to do"}, .rows = {}};
  for (const RunRecord& run : runs)
    for (const FileProblem& problem : run.problems)
      table.rows.push_back({run.name, problem.where, problem.what, problem.next});
  if (table.rows.empty()) return;
  page.banner(fmt::format("{} of the files could not be read, or not whole. All else is shown.", table.rows.size()),
              Page::Tone::bad);
  page.table(table);
}

std::vector<std::string> row_of(const RunRecord& run) {
  if (!run.receipt) return {run.name, "no receipt", "", "", "", "", "", "", ""};
  const Receipt& receipt = *run.receipt;
  const receipt::Times& times = receipt.times;
  const std::optional<double>& loss = receipt.losses.last;
  return {run.name,
          std::string(base::text_of(receipt.ending.kind)),
          fmt::format("{}/{}", receipt.ending.steps, receipt.ending.requested_steps),
          loss ? fmt::format("{:.4f}", *loss) : "",
          times.spread ? human_seconds(times.spread->median) : "",
          times.steady ? fmt::format("{:.0f}", times.steady->tokens_per_second()) : "",
          receipt.mfu.value ? fmt::format("{:.1f} %", 100 * *receipt.mfu.value) : "",
          receipt.memory.planned.empty() ? "" : memory::human_bytes(receipt.memory.planned.front().planned_bytes),
          receipt::to_text(receipt.verdict)};
}

void add_overview(Page& page, const Runs& runs) {
  page.heading("Runs");
  Table table{
      .headings = {"run", "ending", ">steps", ">loss", ">steady step", ">tokens/s", ">MFU", ">worst chip", "verdict"},
      .rows = {}};
  for (const RunRecord& run : runs) table.rows.push_back(row_of(run));
  page.table(table);
}

/// What may be said of the comparison, before anything else of it.
void add_result(Page& page, const Comparison& comparison) {
  if (comparison.differences.has_other_family)
    return page.banner("Confounded: no winner. Dense, sparse and hybrid models are never ranked together.",
                       Page::Tone::bad);
  const size_t axes = comparison.differences.axes.size();
  if (comparison.is_confounded())
    return page.banner("Confounded: no winner. " +
                           (axes > 1 ? fmt::format("{} things differ, and a change could come from each.", axes)
                                     : std::string("Runs of one side differ.")),
                       Page::Tone::bad);
  if (!comparison.effect)
    return page.banner("Not comparable: no winner. " + comparison.objections.front().run + ": " +
                           comparison.objections.front().sentence,
                       Page::Tone::bad);
  page.banner("Result: " + compare::verdict_text(comparison),
              comparison.effect->finding == stats::Finding::too_short ? Page::Tone::bad : Page::Tone::good);
}

void add_comparisons(Page& page, const std::vector<Comparison>& comparisons) {
  page.heading("Comparison");
  if (comparisons.empty()) return page.paragraph("There are no two kinds of runs with receipts to compare.");
  if (comparisons.size() > 1)
    page.paragraph(fmt::format("Each kind of run against the first, each at {:.0f} % confidence by itself.",
                               100 * stats::kConfidence));
  for (const Comparison& comparison : comparisons) {
    page.subheading(fmt::format("{} against {}", fmt::join(comparison.other_runs, ", "),
                                fmt::join(comparison.baseline_runs, ", ")));
    add_result(page, comparison);
    add_moves(page, comparison);
  }
}

void add_chart(Page& page, const std::optional<std::string>& chart, const char* caption, const char* missing) {
  if (chart)
    page.figure(*chart, caption);
  else
    page.paragraph(missing);
}

void add_charts(Page& page, const Runs& runs) {
  page.heading("Loss");
  add_chart(page, loss_chart(runs), "Loss of the logged steps. Where there are many, the lowest and highest are kept.",
            "No step with a loss was logged.");
  for (const RunRecord& run : runs)
    if (const size_t known = steps_with_loss(run); known < run.log.size())
      page.paragraph(fmt::format("{}: {} of {} logged steps have no finite loss.", run.name, run.log.size() - known,
                                 run.log.size()));
  page.heading("Throughput");
  add_chart(page, throughput_chart(runs),
            "Tokens a second from log to log, without saving; the first includes what is cold.",
            "No logged step has a time.");
  page.heading("Parts of a step");
  add_chart(page, parts_chart(runs), "Where the time of a steady step went.",
            "No run measured the parts of its steps.");
}

void add_outcome(Page& page, const RunRecord& run) {
  if (!run.receipt)
    return page.banner("There is no receipt that can be read: what follows is from the log alone.", Page::Tone::bad);
  add_verdict(page, *run.receipt);
  add_answers(page, run.receipt->answers);
  add_ending(page, run.receipt->ending);
}

void add_runs(Page& page, const Runs& runs) {
  const size_t shown = std::min(runs.size(), kMostCurves);
  if (shown < runs.size())
    page.paragraph(
        fmt::format("The first {} of {} runs are compared, drawn and shown from here on.", shown, runs.size()));
  for (size_t i = 0; i < shown; ++i) {
    const RunRecord& run = runs[i];
    if (run.is_empty() || (runs.size() == 1 && !run.receipt)) continue;
    page.heading(runs.size() == 1 ? "The run" : "Run " + run.name);
    if (runs.size() > 1) add_outcome(page, run);
    if (run.receipt) add_details(page, run);
  }
}

}  // namespace

std::vector<Comparison> comparisons_of(const Runs& runs) {
  std::vector<Receipt> receipts;
  for (size_t i = 0; i < std::min(runs.size(), kMostCurves); ++i)
    if (runs[i].receipt) receipts.push_back(*runs[i].receipt);
  if (receipts.size() < 2) return {};
  if (receipts.size() == 2) {
    const compare::Sides sides = compare::sides_of(std::move(receipts));
    return {compare::compare(sides.baseline, sides.other)};
  }
  const std::vector<std::vector<Receipt>> kinds = compare::group_repeats(std::move(receipts));
  std::vector<Comparison> comparisons;
  for (size_t i = 1; i < kinds.size(); ++i) comparisons.push_back(compare::compare(kinds[0], kinds[i]));
  return comparisons;
}

std::string run_page(const Runs& runs, const std::vector<Comparison>& comparisons) {
  Page page(page_title(runs));
  add_problems(page, runs);
  if (runs.size() == 1) {
    add_outcome(page, runs[0]);
  } else {
    add_overview(page, runs);
    add_comparisons(page, comparisons);
  }
  add_charts(page, runs);
  add_runs(page, runs);
  return page.to_text();
}

}  // namespace megacpp::report
