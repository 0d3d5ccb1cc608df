// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/report.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "megacpp/core/base/utf8.h"

namespace megacpp::memory {
namespace {

constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

template <typename Key>
MemoryTable table_by(const MemoryPlan& plan, const Key& key) {
  std::map<std::string, std::map<ir::Role, int64_t>> rows;
  std::set<ir::Role> roles;
  for (const Item& item : plan.items) {
    rows[key(item)][item.role] += item.bytes;
    roles.insert(item.role);
  }
  MemoryTable table{.roles = {roles.begin(), roles.end()}, .rows = {}};
  for (auto& [name, bytes] : rows) {
    MemoryTable::Row& row = table.rows.emplace_back(MemoryTable::Row{.name = name, .bytes = {}});
    for (const ir::Role role : roles) row.bytes.push_back(bytes[role]);
  }
  return table;
}

struct Alike {
  std::string letter;
  std::vector<std::string> blocks;
};

std::string name_of(const Alike& alike) {
  if (alike.letter.empty()) return alike.blocks[0];
  const std::string first = alike.letter + " " + alike.blocks[0];
  if (alike.blocks.size() == 1) return first;
  return fmt::format("{} .. {} ({} alike)", first, alike.blocks.back(), alike.blocks.size());
}

}  // namespace

int64_t MemoryTable::Row::total() const { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

MemoryTable by_letter(const MemoryPlan& plan) {
  return table_by(plan, [](const Item& item) { return item.letter; });
}

MemoryTable by_block(const MemoryPlan& plan) {
  return table_by(plan, [](const Item& item) { return item.block; });
}

MemoryTable by_alike_blocks(const MemoryPlan& plan) {
  std::map<std::string, std::string> letter_of;
  for (const Item& item : plan.items) letter_of[item.block] = item.letter;
  const MemoryTable all = by_block(plan);
  MemoryTable table{.roles = all.roles, .rows = {}};
  std::vector<Alike> names;
  for (const MemoryTable::Row& row : all.rows) {
    const std::string& letter = letter_of[row.name];
    size_t at = 0;
    const auto joins = [&] {
      return !letter.empty() && names[at].letter == letter && table.rows[at].bytes == row.bytes;
    };
    while (at < names.size() && !joins()) ++at;
    if (at == names.size()) {
      names.push_back({.letter = letter, .blocks = {}});
      table.rows.push_back(row);
    }
    names[at].blocks.push_back(row.name);
  }
  for (size_t i = 0; i < names.size(); ++i) table.rows[i].name = name_of(names[i]);
  return table;
}

std::string to_text(const MemoryTable& table, const std::string& title) {
  size_t width = 14;
  for (const MemoryTable::Row& row : table.rows) width = std::max(width, row.name.size() + 1);
  std::string text = fmt::format("{:<{}}", title, width);
  for (const ir::Role role : table.roles) text += fmt::format("{:>13}", ir::role_name(role));
  text += fmt::format("{:>13}\n", "total");
  for (const MemoryTable::Row& row : table.rows) {
    text += fmt::format("{:<{}}", row.name.empty() ? "-" : row.name, width);
    for (const int64_t bytes : row.bytes) text += fmt::format("{:>13}", bytes == 0 ? "." : human_bytes(bytes));
    text += fmt::format("{:>13}\n", human_bytes(row.total()));
  }
  return text;
}

std::string largest_text(const MemoryPlan& plan) {
  std::string text;
  for (const Allocation& allocation : plan.largest)
    text += fmt::format("{:>12}  {:<11} {:<22} {}\n", human_bytes(allocation.bytes), ir::role_name(allocation.role),
                        allocation.scope, allocation.what);
  return text;
}

std::string human_bytes(int64_t bytes) {
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string exact_bytes(int64_t bytes) { return fmt::format("{} bytes ({})", bytes, human_bytes(bytes)); }

std::string to_text(const MemoryPlan& plan) {
  std::string text = fmt::format("peak {} bytes ({}) in program {}\n", plan.total_bytes, human_bytes(plan.total_bytes),
                                 base::printable_in_line(plan.peak_program));
  text += fmt::format("  state {} · temporaries {} · padding {}\n\n", human_bytes(plan.state_bytes),
                      human_bytes(plan.total_bytes - plan.state_bytes), human_bytes(plan.padding_bytes));
  for (const auto& [tier, away] : plan.away)
    text += fmt::format("{} in {}\n\n", exact_bytes(away.bytes), ir::record(tier).what);
  text += to_text(by_letter(plan), "letter") + "\n";
  text += to_text(by_block(plan), "block") + "\n";
  return text + "largest at the peak\n" + largest_text(plan);
}

}  // namespace megacpp::memory
