// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/memory_section.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/evidence/report/line_chart.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::report {
namespace {

using memory::human_bytes;
using receipt::ChipGroup;
using receipt::ChipPeak;

constexpr size_t kMostBars = 32;  // of groups of chips, and rows that stand open

std::string known_bytes(const std::optional<int64_t>& bytes) { return bytes ? human_bytes(*bytes) : "not known"; }

double bar_bytes(int64_t bytes) { return bar_value(static_cast<double>(bytes)); }

std::string group_label(const ChipGroup& group) {
  return group.place + (group.chips > 1 ? fmt::format(" and {} alike", group.chips - 1) : "");
}

std::string spare_text(const ChipGroup& group) {
  if (!group.limit_bytes) return "not known";
  const double spare = static_cast<double>(*group.limit_bytes) - static_cast<double>(group.needed_bytes);
  return spare < 0 ? "-" + bytes_text(-spare) : bytes_text(spare);
}

std::vector<Mark> marks_of(const ChipGroup& group, const std::vector<ChipPeak>& measured) {
  std::vector<Mark> marks;
  if (group.limit_bytes) marks.push_back({bar_bytes(*group.limit_bytes), "limit"});
  const auto peak = std::ranges::find(measured, group.chip, &ChipPeak::chip);
  if (peak != measured.end() && peak->measured_bytes) marks.push_back({bar_bytes(*peak->measured_bytes), "measured"});
  return marks;
}

/// Those that have bytes of it, by letter. A family has the colour of its place here in every picture.
std::vector<std::string> families_of(const receipt::Memory& memory) {
  std::set<std::string> families;
  for (const ChipGroup& group : memory.planned)
    for (const receipt::MemoryItem& item : group.items) families.insert(item.family);
  for (const receipt::FamilyMemory& family : memory.along_step) families.insert(family.family);
  return {families.begin(), families.end()};
}

/// "M", or "outside blocks".
std::string family_text(const std::string& family) { return family.empty() ? "outside blocks" : family; }

/// The distinct roles on all chips, in the order in which they first appear.
std::vector<std::string> roles_of(const std::vector<ChipGroup>& groups) {
  std::vector<std::string> roles;
  for (const ChipGroup& group : groups)
    for (const receipt::MemoryItem& item : group.items)
      if (std::ranges::find(roles, item.role) == roles.end()) roles.push_back(item.role);
  return roles;
}

/// Bytes at the peak by `part` of an item, one of `parts`, which the picture calls `names`. Where it has one name more,
/// that is of what no item has.
std::string chips_picture(const receipt::Memory& memory, std::string receipt::MemoryItem::*part,
                          const std::vector<std::string>& parts, std::vector<std::string> names) {
  BarChart chart{.series = std::move(names), .bars = {}, .text = bytes_text};
  for (const ChipGroup& group : memory.planned) {
    if (chart.bars.size() == kMostBars) break;
    std::map<std::string, double> bytes;
    double rest = bar_bytes(group.planned_bytes);
    for (const receipt::MemoryItem& item : group.items) {
      bytes[item.*part] += bar_bytes(item.bytes);
      rest -= bar_bytes(item.bytes);
    }
    Bar bar{.label = group_label(group), .values = {}, .marks = marks_of(group, memory.measured)};
    for (const std::string& one : parts) bar.values.push_back(bytes[one]);
    if (chart.series.size() > parts.size()) bar.values.push_back(bar_value(rest));
    chart.bars.push_back(std::move(bar));
  }
  return stacked_bars(chart);
}

void add_chips(Page& page, const std::vector<ChipGroup>& groups) {
  Table table{.headings = {"chips", ">planned", ">needed", ">state", ">limit", ">free"}, .rows = {}};
  for (const ChipGroup& group : groups) {
    table.rows.push_back({group_label(group), human_bytes(group.planned_bytes), human_bytes(group.needed_bytes),
                          human_bytes(group.state_bytes), known_bytes(group.limit_bytes), spare_text(group)});
  }
  if (groups.size() <= kMostBars)
    page.table(table);
  else
    page.folded_table(fmt::format("All {} kinds of chips", groups.size()), table);
}

void add_worst_chip(Page& page, const ChipGroup& worst) {
  Table table{.headings = {"role", "family", ">bytes"}, .rows = {}};
  for (const receipt::MemoryItem& item : worst.items)
    table.rows.push_back({item.role, family_text(item.family), human_bytes(item.bytes)});
  page.folded_table("The chip with the least free memory, by role and family: " + worst.place, table);
}

/// The sum of all families on top, then those that need the most at once. A family has the colour of its bars; the sum
/// has that behind padding's.
std::vector<Curve> curves_along_step(const receipt::Memory& memory) {
  const std::vector<std::string> families = families_of(memory);
  std::vector<Curve> curves;
  Curve all{.name = "all", .colour = colour_of(families.size() + 1), .points = {}};
  for (const receipt::FamilyMemory& family : memory.along_step) {
    const auto place = static_cast<size_t>(std::ranges::find(families, family.family) - families.begin());
    Curve curve{.name = family_text(family.family), .colour = colour_of(place), .points = {}};
    const auto parts = static_cast<double>(family.bytes.size());
    for (size_t part = 0; part < family.bytes.size(); ++part) {
      const double x = 100 * (static_cast<double>(part) + 0.5) / parts, y = bar_bytes(family.bytes[part]);
      curve.points.push_back({x, y});
      if (part == all.points.size()) all.points.push_back({x, 0});
      all.points[part].y += y;
    }
    curves.push_back(std::move(curve));
  }
  const auto most = [](const Curve& curve) {
    return curve.points.empty() ? 0 : std::ranges::max(curve.points, {}, &CurvePoint::y).y;
  };
  std::ranges::stable_sort(curves, std::ranges::greater{}, most);
  curves.insert(curves.begin(), std::move(all));
  curves.resize(std::min(curves.size(), kSeriesColours));
  return curves;
}

void add_along_step(Page& page, const receipt::Memory& memory) {
  if (memory.along_step.empty()) return page.paragraph("The plan does not say how memory is used along a step.");
  const LineChart chart{.x_title = "part of the step, %",
                        .y_title = "bytes",
                        .x_text = [](double share) { return fmt::format("{:.0f}", share); },
                        .y_text = bytes_text,
                        .y_steps = Steps::binary,
                        .curves = curves_along_step(memory)};
  page.figure(lines(chart), "Planned bytes along a step by family, of " + memory.planned.front().place +
                                ": from its first node to the last, the update included.");
}

void add_measured(Page& page, const std::vector<ChipPeak>& measured) {
  if (measured.empty()) return page.paragraph("No peak was measured.");
  Table table{.headings = {"chip", ">planned", ">measured", ">limit"}, .rows = {}};
  for (const ChipPeak& chip : measured)
    table.rows.push_back({chip.place.empty() ? fmt::format("chip {}", chip.chip) : chip.place,
                          known_bytes(chip.planned_bytes), known_bytes(chip.measured_bytes),
                          known_bytes(chip.limit_bytes)});
  page.folded_table(fmt::format("Measured peaks of {} chip{}", measured.size(), measured.size() == 1 ? "" : "s"),
                    table);
}

}  // namespace

std::string bytes_text(double bytes) { return human_bytes(std::llround(bytes)); }

void add_memory(Page& page, const receipt::Memory& memory) {
  page.subheading("Memory by chip, family and time");
  if (memory.planned.empty()) {
    page.paragraph("The run left no plan of its memory.");
  } else {
    const std::vector<std::string> families = families_of(memory), roles = roles_of(memory.planned);
    std::vector<std::string> names;
    std::ranges::transform(families, std::back_inserter(names), family_text);
    names.push_back("padding");
    page.figure(
        chips_picture(memory, &receipt::MemoryItem::family, families, std::move(names)),
        "Bytes at the peak of the run by family, against the limit; the chips with the least free memory first.");
    page.figure(chips_picture(memory, &receipt::MemoryItem::role, roles, roles), "The same by role.");
    add_chips(page, memory.planned);
    add_worst_chip(page, memory.planned.front());
    add_along_step(page, memory);
  }
  add_measured(page, memory.measured);
}

}  // namespace megacpp::report
