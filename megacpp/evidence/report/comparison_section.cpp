// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/comparison_section.h"

#include <string>

#include <fmt/format.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/evidence/report/comparison_tables.h"
#include "megacpp/evidence/report/svg.h"

namespace megacpp::report {
namespace {

using compare::Comparison;

void add_differences(Page& page, const Comparison& comparison) {
  const compare::Differences& differences = comparison.differences;
  for (const compare::Change& axis : differences.axes) page.paragraph("Axis: " + axis_text(axis));
  for (const compare::Change& change : comparison.among_repeats)
    page.paragraph("Repeats of one side differ: " + compare::to_text(change));
  if (differences.fields.empty()) page.paragraph("No field of the headers differs.");
  if (!differences.fields.empty()) page.table(differences_table(differences));
  for (const compare::Change& key : differences.unmeasured)
    page.paragraph("Differs too, and has no part in how long a step takes: " + compare::to_text(key));
  Table objections{.headings = {"run", "why it may not be compared"}, .rows = {}};
  for (const compare::Objection& objection : comparison.objections)
    objections.rows.push_back({objection.run, objection.sentence});
  if (!objections.rows.empty()) page.table(objections);
}

/// Seconds of a step by part, before and after.
std::string parts_picture(const compare::TimeMoves& time) {
  BarChart chart{.series = {},
                 .bars = {{.label = "baseline", .values = {}}, {.label = "other", .values = {}}},
                 .text = base::human_seconds};
  for (const compare::PartMove& part : time.parts) {
    chart.series.push_back(part.part);
    chart.bars[0].values.push_back(bar_value(part.baseline));
    chart.bars[1].values.push_back(bar_value(part.other));
  }
  return stacked_bars(chart);
}

void add_effect(Page& page, const Comparison& comparison) {
  const stats::Effect& effect = *comparison.effect;
  page.paragraph(fmt::format("{:.0f} -> {:.0f} tokens/s. Test: {}{}.", comparison.baseline_tokens_per_second,
                             comparison.other_tokens_per_second, effect.test,
                             effect.p_value ? fmt::format("; p = {:.2g}", *effect.p_value) : ""));
  if (comparison.time && is_found(effect)) {
    page.paragraph("Cause: " + cause_text(*comparison.time));
    if (!comparison.time->parts.empty()) page.figure(parts_picture(*comparison.time), "Seconds of a step by part.");
    page.table(time_moves_table(*comparison.time));
    for (const compare::PartMove& part : comparison.time->parts)
      for (const std::string& note : part.notes) page.paragraph(part.part + ": " + note);
    for (const std::string& note : comparison.time->unexplained_notes) page.paragraph(note);
  }
  if (!comparison.memory) return;
  page.paragraph("Memory: " + worst_chip_text(*comparison.memory));
  if (!comparison.memory->roles.empty()) page.table(role_moves_table(*comparison.memory));
  if (!comparison.memory->chips.empty()) page.folded_table("By chips", chip_moves_table(*comparison.memory));
}

}  // namespace

void add_moves(Page& page, const Comparison& comparison) {
  add_differences(page, comparison);
  if (comparison.effect) add_effect(page, comparison);
}

}  // namespace megacpp::report
