// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/memory_map.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/evidence/report/memory_section.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/evidence/serve/page.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::serve {
namespace {

using receipt::ChipGroup;
using receipt::MemoryItem;

using PartOf = std::function<std::string(const MemoryItem&)>;

std::string bytes_or_dash(const std::optional<int64_t>& bytes) { return bytes ? memory::human_bytes(*bytes) : "-"; }

std::string family_of(const MemoryItem& item) { return report::family_text(item.family); }

std::string group_label(const ChipGroup& group) {
  return group.chips > 1 ? fmt::format("{} and {} alike", group.place, group.chips - 1) : group.place;
}

/// The distinct roles on all chips, in the order in which they first appear.
std::vector<std::string> roles_of(const std::vector<ChipGroup>& groups) {
  std::vector<std::string> roles;
  for (const ChipGroup& group : groups)
    for (const MemoryItem& item : group.items)
      if (std::ranges::find(roles, item.role) == roles.end()) roles.push_back(item.role);
  return roles;
}

std::vector<std::string> family_texts(const receipt::Memory& memory) {
  std::vector<std::string> texts;
  for (const std::string& family : report::families_of(memory)) texts.push_back(report::family_text(family));
  return texts;
}

std::string chip_bars(const std::vector<ChipGroup>& groups, std::vector<std::string> parts, const PartOf& part_of) {
  report::BarChart chart{.series = std::move(parts), .bars = {}, .text = report::bytes_text};
  for (const ChipGroup& group : groups) {
    report::Bar bar{.label = group_label(group), .values = std::vector<double>(chart.series.size(), 0)};
    for (const MemoryItem& item : group.items) {
      const auto part = std::ranges::find(chart.series, part_of(item));
      bar.values[static_cast<size_t>(part - chart.series.begin())] +=
          static_cast<double>(std::max<int64_t>(0, item.bytes));
    }
    if (group.limit_bytes) bar.marks.push_back({static_cast<double>(*group.limit_bytes), "limit"});
    chart.bars.push_back(std::move(bar));
  }
  return report::stacked_bars(chart);
}

std::string planned_html(const receipt::Memory& memory) {
  std::vector<ChipGroup> groups = memory.planned;
  const size_t all = groups.size();
  if (all > kMostBars) groups.resize(kMostBars);
  const std::string which =
      all > kMostBars ? fmt::format("; the {} of {} kinds of chips with the least free bytes", kMostBars, all) : "";
  return figure(chip_bars(groups, roles_of(groups), [](const MemoryItem& item) { return item.role; }),
                "planned bytes at the peak of each chip by role, the worst first" + which) +
         figure(chip_bars(groups, family_texts(memory), family_of), "the same by family of blocks");
}

std::string measured_html(const receipt::Memory& memory) {
  HtmlTable table{.caption = "measured", .headings = {"chip", ">planned", ">measured", ">limit"}};
  for (const receipt::ChipPeak& chip : memory.measured)
    table.rows.push_back({shown(chip.place), bytes_or_dash(chip.planned_bytes), bytes_or_dash(chip.measured_bytes),
                          bytes_or_dash(chip.limit_bytes)});
  return to_html(table);
}

}  // namespace

std::string memory_map_html(const receipt::Memory& memory) {
  std::string text = heading("Memory of each chip");
  text += memory.planned.empty() ? paragraph("There is no plan of this run's memory.") : planned_html(memory);
  text += memory.measured.empty() ? paragraph("Nothing was measured.") : measured_html(memory);
  return text;
}

}  // namespace megacpp::serve
