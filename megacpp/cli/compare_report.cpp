// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/compare_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/output.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/core/stats/effect.h"
#include "megacpp/evidence/compare/fields.h"
#include "megacpp/evidence/report/comparison_tables.h"

namespace megacpp::cli {
namespace {

using compare::Comparison;

/// Names of runs and values of their recipes stay in it.
std::string escaped_line(const std::string& text) { return base::printable_in_line(text) + "\n"; }

std::string differences_text(const Comparison& comparison) {
  const compare::Differences& differences = comparison.differences;
  std::string text = differences.fields.empty() ? "no field of the headers differs\n"
                                                : to_text(report::differences_table(differences));
  for (const compare::Change& axis : differences.axes) text += escaped_line("axis      " + report::axis_text(axis));
  for (const compare::Change& key : differences.unmeasured)
    text += escaped_line("ignored   " + compare::to_text(key) + " (no part in how long a step takes)");
  return text;
}

std::string time_moves_text(const compare::TimeMoves& time) {
  std::string text = escaped_line("cause     " + report::cause_text(time)) + to_text(report::time_moves_table(time));
  for (const compare::PartMove& part : time.parts)
    for (const std::string& note : part.notes) text += escaped_line(part.part + ": " + note);
  for (const std::string& note : time.unexplained_notes) text += escaped_line(note);
  return text;
}

std::string memory_moves_text(const compare::MemoryMoves& moves) {
  std::string text = escaped_line("memory    " + report::worst_chip_text(moves));
  if (moves.roles.empty() && moves.chips.empty()) return text;
  text += to_text(report::role_moves_table(moves));
  return moves.chips.empty() ? text : text + to_text(report::chip_moves_table(moves));
}

}  // namespace

std::string runs_comparison_text(const Comparison& comparison) {
  std::string text = escaped_line(fmt::format("baseline  {}", fmt::join(comparison.baseline_runs, ", "))) +
                     escaped_line(fmt::format("other     {}", fmt::join(comparison.other_runs, ", ")));
  text += differences_text(comparison);
  for (const compare::Change& change : comparison.among_repeats)
    text += escaped_line("repeats differ: " + to_text(change));
  for (const compare::Objection& objection : comparison.objections)
    text += escaped_line(fmt::format("not comparable: {}: {}", objection.run, objection.sentence));
  if (!comparison.effect) return text + (comparison.is_confounded() ? "confounded: no winner\n" : "");
  text += escaped_line("result    " + verdict_text(comparison));
  text += fmt::format("tokens/s  {:.0f} -> {:.0f}\n", comparison.baseline_tokens_per_second,
                      comparison.other_tokens_per_second);
  text += escaped_line(
      fmt::format("test      {}{}", comparison.effect->test,
                  comparison.effect->p_value ? fmt::format("; p = {:.2g}", *comparison.effect->p_value) : ""));
  if (report::is_found(*comparison.effect)) text += time_moves_text(*comparison.time);
  if (comparison.memory) text += memory_moves_text(*comparison.memory);
  return text;
}

Json runs_comparison_json(const Comparison& comparison) { return base::record_json(comparison); }

void print_skipped(const std::vector<compare::Skipped>& skipped) {
  for (const compare::Skipped& each : skipped)
    print_err("skipped   {}: {} {}: {}\n", each.path.string(), base::code_name(each.why.code()),
              base::code_title(each.why.code()), each.why.problem().got);
}

Json skipped_json(const std::vector<compare::Skipped>& skipped) {
  Json list = Json::array();
  for (const compare::Skipped& each : skipped)
    list.push_back(Json{{"path", each.path.string()}, {"error", error_json(each.why)}});
  return list;
}

}  // namespace megacpp::cli
