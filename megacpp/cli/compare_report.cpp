// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/compare_report.h"

#include <cstdint>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/base/human_seconds.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/memory/report.h"
#include "megacpp/stats/effect.h"

namespace megacpp::cli {
namespace {

using compare::Comparison;

std::string signed_seconds(double seconds) {
  return (seconds < 0 ? "-" : "+") + base::human_seconds(seconds < 0 ? -seconds : seconds);
}

std::string signed_bytes(int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + memory::human_bytes(bytes < 0 ? -bytes : bytes);
}

std::string share_text(double part, double whole) {
  return whole == 0 ? "" : fmt::format("{:.0f} %", 100 * part / whole);
}

std::string differences_text(const Comparison& comparison) {
  const compare::Differences& differences = comparison.differences;
  if (differences.fields.empty()) return "no field of the headers differs\n";
  TextTable table({"field", "baseline", "other", "because of"});
  for (const compare::FieldChange& field : differences.fields)
    table.add({field.name, field.baseline, field.other, field.follows_from});
  std::string text = table.to_text();
  for (const compare::Change& axis : differences.axes) {
    const std::string aspect = compare::aspect_of(axis.name);
    text += "axis      " + compare::to_text(axis) + (aspect.empty() ? "" : " (" + aspect + ")") + "\n";
  }
  for (const compare::Change& key : differences.unmeasured) text += "no field  " + compare::to_text(key) + "\n";
  return text;
}

std::string time_moves_text(const compare::TimeMoves& time) {
  TextTable table({"part of the step", ">baseline", ">other", ">change", ">of it"});
  for (const compare::PartMove& part : time.parts)
    table.add({part.part, base::human_seconds(part.baseline), base::human_seconds(part.other),
               signed_seconds(part.change()), share_text(part.change(), time.change())});
  table.add({"in no part", "", "", signed_seconds(time.unexplained), share_text(time.unexplained, time.change())});
  table.add({"a step", base::human_seconds(time.baseline), base::human_seconds(time.other),
             signed_seconds(time.change()), ""});
  std::string text = table.to_text();
  for (const compare::PartMove& part : time.parts)
    for (const std::string& note : part.notes) text += fmt::format("{}: {}\n", part.part, note);
  for (const std::string& note : time.unexplained_notes) text += note + "\n";
  return text;
}

std::string cause_text(const compare::TimeMoves& time) {
  if (time.parts.empty()) return "cause     not found: the parts of the step were not measured\n";
  if (!time.cause) return "cause     not found: no part of the step has half of the change\n";
  return "cause     " + *time.cause + "\n";
}

std::string memory_moves_text(const compare::MemoryMoves& moves) {
  std::string text = fmt::format("memory    worst chip {} -> {} ({}), {} -> {}\n", memory::human_bytes(moves.baseline),
                                 memory::human_bytes(moves.other), signed_bytes(moves.change()), moves.baseline_chip,
                                 moves.other_chip);
  if (moves.roles.empty() && moves.chips.empty()) return text;
  TextTable table({"role", "family", ">baseline", ">other", ">change"});
  for (const compare::RoleMove& move : moves.roles)
    table.add({move.role, move.family.empty() ? "-" : move.family, memory::human_bytes(move.baseline),
               memory::human_bytes(move.other), signed_bytes(move.change())});
  table.add({"in no role", "", "", "", signed_bytes(moves.unexplained)});
  text += table.to_text();
  TextTable chips({"chips", ">baseline", ">other"});
  const auto shown = [](const std::optional<int64_t>& bytes) { return bytes ? memory::human_bytes(*bytes) : "-"; };
  for (const compare::ChipMove& move : moves.chips) chips.add({move.place, shown(move.baseline), shown(move.other)});
  return moves.chips.empty() ? text : text + chips.to_text();
}

bool is_found(const stats::Effect& effect) {
  return effect.finding == stats::Finding::lower || effect.finding == stats::Finding::higher;
}

Json change_json(const compare::Change& change) {
  return {{"name", change.name}, {"baseline", change.baseline}, {"other", change.other}};
}

Json change_list_json(const std::vector<compare::Change>& changes) {
  Json list = Json::array();
  for (const compare::Change& change : changes) list.push_back(change_json(change));
  return list;
}

Json differences_json(const compare::Differences& differences) {
  Json fields = Json::array();
  for (const compare::FieldChange& field : differences.fields) {
    Json row = change_json(field);
    row["follows_from"] = field.follows_from;
    fields.push_back(std::move(row));
  }
  return {{"fields", fields},
          {"axes", change_list_json(differences.axes)},
          {"unmeasured", change_list_json(differences.unmeasured)},
          {"other_family", differences.has_other_family}};
}

Json effect_json(const std::optional<stats::Effect>& effect) {
  if (!effect) return {};
  return {{"finding", stats::finding_name(effect->finding)},
          {"ratio", effect->ratio},
          {"low", effect->high ? Json(effect->low) : Json()},
          {"high", effect->high ? Json(*effect->high) : Json()},
          {"confidence", stats::kConfidence},
          {"p_value", effect->p_value ? Json(*effect->p_value) : Json()},
          {"test", effect->test},
          {"too_short", effect->too_short},
          {"recommended_runs", effect->recommended_runs}};
}

Json time_moves_json(const std::optional<compare::TimeMoves>& time) {
  if (!time) return {};
  Json parts = Json::array();
  for (const compare::PartMove& part : time->parts)
    parts.push_back(
        Json{{"part", part.part}, {"baseline", part.baseline}, {"other", part.other}, {"notes", part.notes}});
  return {{"baseline_seconds", time->baseline},
          {"other_seconds", time->other},
          {"parts", parts},
          {"unexplained_seconds", time->unexplained},
          {"cause", time->cause ? Json(*time->cause) : Json()}};
}

Json memory_moves_json(const std::optional<compare::MemoryMoves>& moves) {
  if (!moves) return {};
  Json roles = Json::array(), chips = Json::array();
  for (const compare::RoleMove& move : moves->roles)
    roles.push_back(
        Json{{"role", move.role}, {"family", move.family}, {"baseline", move.baseline}, {"other", move.other}});
  for (const compare::ChipMove& move : moves->chips)
    chips.push_back(Json{{"place", move.place},
                         {"baseline", move.baseline ? Json(*move.baseline) : Json()},
                         {"other", move.other ? Json(*move.other) : Json()}});
  return {{"baseline_bytes", moves->baseline},
          {"other_bytes", moves->other},
          {"roles", roles},
          {"chips", chips},
          {"unexplained_bytes", moves->unexplained}};
}

}  // namespace

std::string runs_comparison_text(const Comparison& comparison) {
  std::string text = fmt::format("baseline  {}\nother     {}\n", fmt::join(comparison.baseline_runs, ", "),
                                 fmt::join(comparison.other_runs, ", "));
  text += differences_text(comparison);
  for (const compare::Change& change : comparison.among_repeats) text += "repeats differ: " + to_text(change) + "\n";
  for (const compare::Objection& objection : comparison.objections)
    text += fmt::format("not comparable: {}: {}\n", objection.run, objection.sentence);
  if (!comparison.effect) return text + (comparison.is_confounded() ? "confounded: no winner\n" : "");
  text += fmt::format("result    {}\n", verdict_text(comparison));
  text += fmt::format("tokens/s  {:.0f} -> {:.0f}\n", comparison.baseline_tokens_per_second,
                      comparison.other_tokens_per_second);
  text += fmt::format("test      {}{}\n", comparison.effect->test,
                      comparison.effect->p_value ? fmt::format("; p = {:.2g}", *comparison.effect->p_value) : "");
  if (is_found(*comparison.effect)) text += cause_text(*comparison.time) + time_moves_text(*comparison.time);
  if (comparison.memory) text += memory_moves_text(*comparison.memory);
  return text;
}

Json runs_comparison_json(const Comparison& comparison) {
  Json objections = Json::array();
  for (const compare::Objection& objection : comparison.objections)
    objections.push_back(Json{{"run", objection.run}, {"reason", objection.sentence}});
  return {{"baseline", comparison.baseline_runs},
          {"other", comparison.other_runs},
          {"differences", differences_json(comparison.differences)},
          {"among_repeats", change_list_json(comparison.among_repeats)},
          {"not_comparable", objections},
          {"effect", effect_json(comparison.effect)},
          {"recommended_steps", comparison.recommended_steps},
          {"time", time_moves_json(comparison.time)},
          {"memory", memory_moves_json(comparison.memory)}};
}

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
