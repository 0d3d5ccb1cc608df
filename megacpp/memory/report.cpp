// SPDX-License-Identifier: Apache-2.0
#include "megacpp/memory/report.h"

#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

namespace megacpp::memory {
namespace {

constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

// Rows by `key`, one column per role present, and a total.
template <typename Key>
std::string table_by(const MemoryPlan& plan, const std::string& title, const Key& key) {
  std::map<std::string, std::map<ir::Role, int64_t>> rows;
  std::set<ir::Role> roles;
  for (const Item& item : plan.items) {
    rows[key(item)][item.role] += item.bytes;
    roles.insert(item.role);
  }
  std::string text = fmt::format("{:<14}", title);
  for (const ir::Role role : roles) text += fmt::format("{:>13}", ir::role_name(role));
  text += fmt::format("{:>13}\n", "total");
  for (const auto& [name, bytes] : rows) {
    text += fmt::format("{:<14}", name.empty() ? "-" : name);
    int64_t total = 0;
    for (const ir::Role role : roles) {
      const auto at = bytes.find(role);
      const int64_t here = at == bytes.end() ? 0 : at->second;
      text += fmt::format("{:>13}", here == 0 ? "." : human_bytes(here));
      total += here;
    }
    text += fmt::format("{:>13}\n", human_bytes(total));
  }
  return text;
}

}  // namespace

std::string human_bytes(int64_t bytes) {
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string to_text(const MemoryPlan& plan) {
  std::string text = fmt::format("peak {} bytes ({}) in program {}\n", plan.total_bytes, human_bytes(plan.total_bytes),
                                 plan.peak_program);
  text += fmt::format("  state {} · temporaries {} · padding {}\n\n", human_bytes(plan.state_bytes),
                      human_bytes(plan.total_bytes - plan.state_bytes), human_bytes(plan.padding_bytes));
  text += table_by(plan, "family", [](const Item& item) { return item.family; }) + "\n";
  text += table_by(plan, "block", [](const Item& item) { return item.block; }) + "\n";
  text += "largest at the peak\n";
  for (const Allocation& allocation : plan.largest)
    text += fmt::format("{:>12}  {:<11} {:<22} {}\n", human_bytes(allocation.bytes), ir::role_name(allocation.role),
                        allocation.scope, allocation.what);
  return text;
}

}  // namespace megacpp::memory
