// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/fit_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/ir/chip_name.h"

namespace megacpp::fit {
namespace {

int64_t corrected_bytes(const memory::MemoryPlan& plan, const PlanCorrection& correction) {
  if (correction.of_parts.method == catalog::Method::none) return plan.total_bytes;
  return std::llround(correction.of_parts.corrected(parts_of(plan, correction.letters)));
}

std::string memory_part_name(const memory::Item& item, const LetterFamilies& letters) {
  const std::string role(ir::role_name(item.role));
  if (item.role != ir::Role::temporary) return role;
  if (item.letter.empty()) return role + " outside blocks";
  const auto own = letters.find(item.letter);
  return role + " of " + (own == letters.end() ? item.letter : own->second);
}

std::string place_in(const hw::Slice& slice, int64_t device) {
  const int64_t chip = device / slice.chip.devices;
  return fmt::format("({}) on {}", fmt::join(slice.coordinates(chip), ", "), slice.host_name(chip));
}

// The chip may take what the others leave of it, if they leave anything.
void share_machine(ChipGroup& group, int64_t machine_bytes, int64_t needed_by_all) {
  group.shares_machine = true;
  group.machine_bytes = machine_bytes;
  group.machine_needed = needed_by_all;
  group.limit = std::max<int64_t>(0, machine_bytes - (needed_by_all - group.needed()));
}

}  // namespace

int64_t code_bytes(const hw::Chip& device) { return device.kind == hw::ChipKind::tpu ? device.code_bytes_most : 0; }

LetterFamilies letter_families(const recipe::Model& model) {
  LetterFamilies families;
  for (const auto& [letter, own] : model.letters) families[std::string(1, letter)] = own.family;
  return families;
}

std::vector<catalog::Part> parts_of(const memory::MemoryPlan& plan, const LetterFamilies& letters) {
  std::map<std::string, double> sums;
  for (const memory::Item& item : plan.items) sums[memory_part_name(item, letters)] += static_cast<double>(item.bytes);
  std::vector<catalog::Part> parts;
  for (const auto& [name, bytes] : sums) parts.push_back({name, bytes});
  parts.push_back({"padding", static_cast<double>(plan.padding_bytes)});
  return parts;
}

FitReport fit_report(const compile::Compiled& compiled, const hw::Slice& slice, const std::vector<int64_t>& limits,
                     const PlanCorrection& correction) {
  const hw::Chip device = hw::device_of(slice.chip);
  const int64_t code = code_bytes(device);
  std::map<std::pair<size_t, int64_t>, ChipGroup> groups;  // by stage and limit
  double sum = 0;
  for (int64_t chip = 0; chip < compiled.mesh.chips(); ++chip) {
    const size_t stage = compiled.stage_of(chip);
    const int64_t own = limits.empty() ? 0 : limits[static_cast<size_t>(chip)];
    const int64_t limit = own > 0 ? own : device.usable_bytes;
    const auto [at, is_new] = groups.try_emplace({stage, limit});
    ChipGroup& group = at->second;
    if (is_new)
      group = {.stage = stage,
               .chip = chip,
               .place = ir::chip_name(chip, compiled.mesh),
               .where = place_in(slice, chip),
               .planned = compiled.stages[stage].memory.total_bytes,
               .state = compiled.stages[stage].memory.state_bytes,
               .corrected = corrected_bytes(compiled.stages[stage].memory, correction),
               .code = code,
               .limit = limit,
               .gaps_most = device.gaps_most,
               .own_limit = own > 0};
    ++group.chips;
    sum += static_cast<double>(group.needed());
  }
  if (device.kind == hw::ChipKind::host)
    for (auto& [key, group] : groups)
      if (!group.own_limit) share_machine(group, device.usable_bytes * compiled.mesh.chips(), std::llround(sum));
  FitReport report{.hardware = slice.name,
                   .groups = {},
                   .mean = std::llround(sum / static_cast<double>(compiled.mesh.chips())),
                   .samples = correction.of_parts.samples};
  for (auto& [key, group] : groups) report.groups.push_back(std::move(group));
  // Chips that share a machine have the same free memory: of these the one that needs most comes first.
  std::ranges::stable_sort(report.groups, std::less<>(),
                           [](const ChipGroup& group) { return std::pair(group.free_bytes(), -group.needed()); });
  return report;
}

}  // namespace megacpp::fit
