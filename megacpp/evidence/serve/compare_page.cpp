// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/compare_page.h"

#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/compare/sides.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::serve {
namespace {

using compare::Comparison;

std::string signed_change(double change, const report::NumberText& text) {
  return (change < 0 ? "-" : "+") + text(change < 0 ? -change : change);
}

std::string whole_bytes(double bytes) { return memory::human_bytes(static_cast<int64_t>(bytes)); }

std::string refusal_html(const base::Error& error) {
  const base::Problem& problem = error.problem();
  return banner(fmt::format("{} {}: no winner is named", base::code_name(error.code()), base::code_title(error.code())),
                Tone::bad) +
         paragraph(fmt::format("{}: {}", problem.where, problem.got)) + paragraph("Wanted: " + problem.wanted) +
         paragraph("Next: " + problem.next);
}

std::string fields_html(const compare::Differences& differences) {
  HtmlTable table{.caption = "what differs", .headings = {"field", "baseline", "other", "because of"}};
  for (const compare::FieldChange& field : differences.fields)
    table.rows.push_back({shown(field.name), shown(field.baseline), shown(field.other), shown(field.follows_from)});
  std::string text = table.rows.empty() ? paragraph("No field of the headers differs.") : to_html(table);
  for (const compare::Change& axis : differences.axes) text += paragraph("Axis: " + compare::to_text(axis));
  for (const compare::Change& key : differences.unmeasured)
    text += paragraph("Moves no field: " + compare::to_text(key));
  return text;
}

std::string moved_time_html(const compare::TimeMoves& time) {
  report::BarChart chart{.series = {}, .bars = {{"baseline", {}}, {"other", {}}}, .text = base::human_seconds};
  HtmlTable table{.headings = {"part of the step", ">baseline", ">other", ">change"}};
  for (const compare::PartMove& part : time.parts) {
    chart.series.push_back(part.part);
    chart.bars[0].values.push_back(part.baseline);
    chart.bars[1].values.push_back(part.other);
    table.rows.push_back({shown(part.part), base::human_seconds(part.baseline), base::human_seconds(part.other),
                          signed_change(part.change(), base::human_seconds)});
  }
  table.rows.push_back({"in no part", "", "", signed_change(time.unexplained, base::human_seconds)});
  table.rows.push_back({"a step", base::human_seconds(time.baseline), base::human_seconds(time.other),
                        signed_change(time.change(), base::human_seconds)});
  std::string text = heading("Where the time went");
  text += paragraph(time.cause ? "Cause: " + *time.cause : "The cause is not found: no part has half of the change.");
  if (!chart.series.empty()) text += figure(report::stacked_bars(chart), "seconds of a step by part");
  text += to_html(table);
  for (const compare::PartMove& part : time.parts)
    for (const std::string& note : part.notes) text += paragraph(part.part + ": " + note);
  return text;
}

std::string moved_memory_html(const compare::MemoryMoves& moves) {
  HtmlTable table{.caption = "planned bytes of the worst chip",
                  .headings = {"role", "family", ">baseline", ">other", ">change"}};
  for (const compare::RoleMove& move : moves.roles)
    table.rows.push_back({shown(move.role), shown(move.family), memory::human_bytes(move.baseline),
                          memory::human_bytes(move.other),
                          signed_change(static_cast<double>(move.change()), whole_bytes)});
  table.rows.push_back({"in no role", "", "", "", signed_change(static_cast<double>(moves.unexplained), whole_bytes)});
  table.rows.push_back({"the chip", "", memory::human_bytes(moves.baseline), memory::human_bytes(moves.other),
                        signed_change(static_cast<double>(moves.change()), whole_bytes)});
  return heading("Where memory moved") + to_html(table);
}

std::string result_html(const Comparison& comparison) {
  std::string text = banner(compare::verdict_text(comparison), Tone::good);
  text += paragraph(fmt::format("{:.0f} -> {:.0f} tokens/s; test: {}", comparison.baseline_tokens_per_second,
                                comparison.other_tokens_per_second, comparison.effect->test));
  return text;
}

std::string comparison_html(const Comparison& comparison) {
  std::string text;
  try {
    compare::require_result(comparison);
    text = comparison.effect ? result_html(comparison) : banner("No run has steps that may be compared.", Tone::bad);
  } catch (const base::Error& error) {
    text = refusal_html(error);
  }
  text += paragraph(fmt::format("baseline: {}; other: {}", fmt::join(comparison.baseline_runs, ", "),
                                fmt::join(comparison.other_runs, ", ")));
  for (const compare::Objection& objection : comparison.objections)
    text += paragraph(objection.run + ": " + objection.sentence);
  text += fields_html(comparison.differences);
  if (comparison.effect && comparison.time) text += moved_time_html(*comparison.time);
  if (comparison.effect && comparison.memory) text += moved_memory_html(*comparison.memory);
  return text;
}

Page titled_page(std::string body) { return {.title = "Compare", .path = "/compare", .body = std::move(body)}; }

}  // namespace

Page compare_help_page() {
  return titled_page(
      paragraph("Tick two runs or more in the list, then press the button below it. Of more than two, those "
                "that differ in nothing are repeats.") +
      "<p><a href=\"/\">To the runs</a></p>\n");
}

Page compare_page(std::vector<receipt::Receipt> receipts) {
  try {
    const compare::Sides sides = compare::sides_of(std::move(receipts));
    return titled_page(comparison_html(compare::compare(sides.baseline, sides.other)));
  } catch (const base::Error& error) {
    return titled_page(refusal_html(error));
  }
}

}  // namespace megacpp::serve
