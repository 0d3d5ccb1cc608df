// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/comparison_tables.h"

#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/stats/effect.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::report {
namespace {

using base::human_seconds;
using memory::human_bytes;

std::string signed_seconds(double seconds) {
  return (seconds < 0 ? "-" : "+") + human_seconds(seconds < 0 ? -seconds : seconds);
}

std::string signed_bytes(int64_t bytes) { return (bytes < 0 ? "-" : "+") + human_bytes(bytes < 0 ? -bytes : bytes); }

std::string share_text(double part, double whole) {
  return whole == 0 ? "" : fmt::format("{:.0f} %", 100 * part / whole);
}

}  // namespace

Table differences_table(const compare::Differences& differences) {
  Table table{.headings = {"field", "baseline", "other", "because of"}, .rows = {}};
  for (const compare::FieldChange& field : differences.fields)
    table.rows.push_back({field.name, field.baseline, field.other, field.follows_from});
  return table;
}

std::string axis_text(const compare::Change& axis) {
  const std::string aspect = compare::aspect_of(axis.name);
  return compare::to_text(axis) + (aspect.empty() ? "" : " (" + aspect + ")");
}

Table time_moves_table(const compare::TimeMoves& time) {
  Table table{.headings = {"part of the step", ">baseline", ">other", ">change", ">of it"}, .rows = {}};
  for (const compare::PartMove& part : time.parts)
    table.rows.push_back({part.part, human_seconds(part.baseline), human_seconds(part.other),
                          signed_seconds(part.change()), share_text(part.change(), time.change())});
  table.rows.push_back(
      {"in no part", "", "", signed_seconds(time.unexplained), share_text(time.unexplained, time.change())});
  table.rows.push_back(
      {"a step", human_seconds(time.baseline), human_seconds(time.other), signed_seconds(time.change()), ""});
  return table;
}

std::string cause_text(const compare::TimeMoves& time) {
  if (time.parts.empty()) return "not found: the parts of the step were not measured";
  return time.cause.value_or("not found: no part of the step has half of the change, in its direction");
}

std::string worst_chip_text(const compare::MemoryMoves& moves) {
  return fmt::format("planned, worst chip {} -> {} ({}), {} -> {}", human_bytes(moves.baseline),
                     human_bytes(moves.other), signed_bytes(moves.change()), moves.baseline_chip, moves.other_chip);
}

Table role_moves_table(const compare::MemoryMoves& moves) {
  Table table{.headings = {"role", "family", ">baseline", ">other", ">change"}, .rows = {}};
  for (const compare::RoleMove& move : moves.roles)
    table.rows.push_back({move.role, move.family.empty() ? "-" : move.family, human_bytes(move.baseline),
                          human_bytes(move.other), signed_bytes(move.change())});
  table.rows.push_back({"in no role", "", "", "", signed_bytes(moves.unexplained)});
  return table;
}

Table chip_moves_table(const compare::MemoryMoves& moves) {
  Table table{.headings = {"chips", ">baseline", ">other"}, .rows = {}};
  const auto shown = [](const std::optional<int64_t>& bytes) { return bytes ? human_bytes(*bytes) : std::string("-"); };
  for (const compare::ChipMove& move : moves.chips)
    table.rows.push_back({move.place, shown(move.baseline), shown(move.other)});
  return table;
}

bool is_found(const stats::Effect& effect) {
  return effect.finding == stats::Finding::lower || effect.finding == stats::Finding::higher;
}

}  // namespace megacpp::report
