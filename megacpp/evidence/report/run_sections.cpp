// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/run_sections.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "megacpp/evidence/receipt/answers.h"
#include "megacpp/evidence/receipt/header_fields.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/report/memory_section.h"
#include "megacpp/evidence/report/run_charts.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::report {
namespace {

using memory::human_bytes;
using receipt::Receipt;

std::string bytes_or_none(const std::optional<int64_t>& bytes) { return bytes ? human_bytes(*bytes) : "-"; }

void add_failure(Page& page, const receipt::Failure& failure) {
  page.paragraph("Ended by " + receipt::to_text(failure));
  Table table{.headings = {"", ""}, .rows = {}};
  const auto add = [&table](const char* name, const std::string& text) {
    if (!text.empty()) table.rows.push_back({name, text});
  };
  add("class", failure.oom_class);
  add("phase", failure.phase);
  add("chip", failure.chip);
  add("step", failure.step ? std::to_string(*failure.step) : "");
  add("bytes wanted", failure.wanted_bytes ? human_bytes(*failure.wanted_bytes) : "");
  add("limit of the chip", failure.limit_bytes ? human_bytes(*failure.limit_bytes) : "");
  add("injected", failure.is_injected ? "yes: the recipe had asked for it" : "");
  add("wanted", failure.wanted);
  add("next step", failure.next);
  if (!table.rows.empty()) page.table(table);
}

/// Bytes by axes, a part for each kind.
std::string collectives_picture(const std::vector<receipt::Collective>& collectives) {
  std::set<std::string> kinds;
  std::map<std::string, std::map<std::string, double>> axes;
  for (const receipt::Collective& each : collectives) {
    kinds.insert(each.kind);
    axes[each.axes][each.kind] += bar_value(static_cast<double>(each.bytes));
  }
  BarChart chart{.series = {kinds.begin(), kinds.end()}, .bars = {}, .text = bytes_text};
  for (const auto& [name, bytes] : axes) {
    Bar bar{.label = "over " + name, .values = {}};
    for (const std::string& kind : chart.series) bar.values.push_back(bytes.contains(kind) ? bytes.at(kind) : 0);
    chart.bars.push_back(std::move(bar));
  }
  return stacked_bars(chart);
}

void add_collectives(Page& page, const Receipt& receipt) {
  page.subheading("Collectives");
  if (!receipt.collectives) return page.paragraph("Placed by the backend's compiler: their bytes are not known.");
  if (receipt.collectives->empty()) return page.paragraph("None.");
  page.figure(collectives_picture(*receipt.collectives), "Bytes a chip sends in a step, by axes of the mesh and kind.");
  Table table{.headings = {"axes", "kind", ">stage", ">calls", ">bytes"}, .rows = {}};
  for (const receipt::Collective& each : *receipt.collectives)
    table.rows.push_back(
        {each.axes, each.kind, std::to_string(each.stage), std::to_string(each.calls), human_bytes(each.bytes)});
  page.table(table);
}

void add_ladder(Page& page, const receipt::Ladder& ladder) {
  page.subheading("Ladder");
  page.paragraph(ladder.rung == 0 ? "No rung was taken: what was launched is what was requested."
                                  : fmt::format("It ran at rung {}: {}.{}", ladder.rung, ladder.changes,
                                                ladder.changes_experiment ? " That is another experiment." : ""));
  if (ladder.tried.empty()) return;
  Table table{.headings = {">rung", "name", "outcome", "settings", ">needed", ">limit", "reason"}, .rows = {}};
  for (const catalog::Reduction& tried : ladder.tried)
    table.rows.push_back({std::to_string(tried.rung), tried.name, tried.outcome, tried.settings,
                          bytes_or_none(tried.needed_bytes), bytes_or_none(tried.limit_bytes), tried.reason});
  page.table(table);
}

/// The most uneven blocks, a part for each expert.
std::string experts_picture(const std::vector<receipt::ExpertLoad>& loads) {
  constexpr size_t kMostBlocks = 12;
  BarChart chart{.series = {}, .bars = {}, .text = [](double share) { return fmt::format("{:.1f} %", 100 * share); }};
  const size_t bars = std::min(loads.size(), kMostBlocks);
  size_t experts = 0;
  for (size_t i = 0; i < bars; ++i) experts = std::max(experts, loads[i].share.size());
  for (size_t i = 0; i < experts; ++i) chart.series.push_back(fmt::format("expert {}", i));
  for (size_t i = 0; i < bars; ++i) {
    Bar bar{.label = loads[i].block, .values = std::vector<double>(experts, 0)};
    std::ranges::transform(loads[i].share, bar.values.begin(), bar_value);
    chart.bars.push_back(std::move(bar));
  }
  return stacked_bars(chart);
}

void add_experts(Page& page, const RunRecord& run) {
  std::vector<receipt::ExpertLoad> loads = run.receipt->experts;
  if (loads.empty()) return;
  page.subheading("Expert load");
  std::ranges::stable_sort(loads, std::ranges::greater{}, &receipt::ExpertLoad::imbalance);
  page.figure(experts_picture(loads),
              "Share of the requests by expert, in the steady window; the most uneven blocks first.");
  if (const std::optional<std::string> chart = imbalance_chart(run))
    page.figure(*chart, "The busiest expert over the mean by step; 1 is even.");
  Table table{.headings = {"block", ">experts", ">busiest over mean", ">dropped"}, .rows = {}};
  for (const receipt::ExpertLoad& load : loads)
    table.rows.push_back({load.block, std::to_string(load.share.size()), fmt::format("{:.2f}", load.imbalance),
                          fmt::format("{:.0f}", load.dropped)});
  page.table(table);
}

void add_lineage(Page& page, const receipt::Lineage& lineage) {
  page.subheading("Environment");
  if (lineage.lock_file.empty()) return page.paragraph("Nothing is documented: there is no lock file.");
  page.paragraph("Compared with " + lineage.lock_file + ".");
  Table table{.headings = {"what", "state", "documented", "found"}, .rows = {}};
  for (const receipt::LineageItem& item : lineage.items)
    table.rows.push_back({item.name, item.state, item.documented, item.live});
  page.folded_table(fmt::format("All {} facts", lineage.items.size()), table);
}

void add_receipt(Page& page, const Receipt& receipt) {
  page.subheading("Receipt");
  Table header{.headings = {"field", "value"}, .rows = {}};
  for (const receipt::HeaderField& field : receipt::header_fields(receipt.header))
    if (!field.value.empty()) header.rows.push_back({field.name, field.value});
  page.folded_table("What ran: the header", header);
  page.folded_text("Every figure, as megacpp receipt show prints it", receipt::report_text(receipt));
  page.folded_text("Recipe, resolved", receipt.recipe);
}

}  // namespace

void add_verdict(Page& page, const Receipt& receipt) {
  page.banner("Verdict: " + receipt::to_text(receipt.verdict),
              receipt.verdict.is_comparable() ? Page::Tone::good : Page::Tone::bad);
  for (const receipt::Reason& reason : receipt.verdict.reasons) page.paragraph(reason.sentence);
}

void add_answers(Page& page, const receipt::Answers& answers) {
  Table table{.headings = {"question", "answer"}, .rows = {}};
  for (const receipt::Question& question : receipt::five_questions())
    table.rows.push_back({question.text, answers.*question.answer});
  page.table(table);
}

void add_ending(Page& page, const receipt::Ending& ending) {
  page.paragraph("The run: " + receipt::to_text(ending) + ".");
  if (ending.failure) add_failure(page, *ending.failure);
}

void add_details(Page& page, const RunRecord& run) {
  const Receipt& receipt = *run.receipt;
  add_memory(page, receipt.memory);
  add_collectives(page, receipt);
  add_ladder(page, receipt.ladder);
  add_experts(page, run);
  add_lineage(page, receipt.lineage);
  add_receipt(page, receipt);
}

}  // namespace megacpp::report
