// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/fit_report.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/ir/chip_name.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/memory/report.h"

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

/// What the hardware lets a chip of the mesh use.
struct HardwareLimit {
  std::optional<int64_t> bytes = {};  // absent: not known
  int64_t machine_bytes = 0;          // of virtual chips: of all on the same machine together
  int64_t machine_needed = 0;
  int64_t machine_snapshot = 0;

  auto operator<=>(const HardwareLimit&) const = default;
};

/// The host of every chip.
std::vector<int64_t> host_of_chips(const ir::Mesh& mesh, const hw::Slice& slice, const Hosts& hosts) {
  if (!hosts.all.empty()) return hosts.of_chips(mesh);
  std::vector<int64_t> by_slice;
  for (int64_t device = 0; device < mesh.chips(); ++device)
    by_slice.push_back(slice.host_of(device / slice.chip.devices));
  return by_slice;
}

/// What each host has of the snapshot that checkpoints are written from. The chips of a stage save about as much of it
/// each, whoever holds what (train/state_saver.h).
std::map<int64_t, int64_t> snapshot_by_host(const compile::Compiled& compiled, const std::vector<int64_t>& hosts) {
  const std::vector<int64_t> kept = compile::kept_bytes_by_stage(compiled);
  std::vector<std::map<int64_t, int64_t>> chips(kept.size());  // by stage and host
  std::vector<int64_t> all(kept.size());
  for (size_t chip = 0; chip < hosts.size(); ++chip) {
    const size_t stage = compiled.stage_of(static_cast<int64_t>(chip));
    ++chips[stage][hosts[chip]];
    ++all[stage];
  }
  std::map<int64_t, int64_t> bytes;
  for (size_t stage = 0; stage < kept.size(); ++stage)
    for (const auto& [host, count] : chips[stage]) bytes[host] += (kept[stage] * count + all[stage] - 1) / all[stage];
  return bytes;
}

/// By chip, of which each needs so many bytes. A virtual chip may take what the others of its machine leave, if they
/// leave anything; the snapshot that checkpoints are written from is in the same memory, on each machine a part.
std::vector<HardwareLimit> hardware_limits(const hw::Slice& slice, const std::vector<int64_t>& needed,
                                           const std::map<int64_t, int64_t>& snapshot) {
  const hw::Chip device = hw::device_of(slice.chip);
  if (device.usable_bytes == 0) return std::vector<HardwareLimit>(needed.size());
  std::vector<HardwareLimit> limits(needed.size(), {.bytes = device.usable_bytes});
  if (device.kind != hw::ChipKind::host) return limits;
  const int64_t machine = device.usable_bytes * slice.chip.slices.host[0];
  std::map<int64_t, int64_t> used = snapshot;  // by machine
  for (size_t chip = 0; chip < needed.size(); ++chip) used[slice.host_of(static_cast<int64_t>(chip))] += needed[chip];
  for (size_t chip = 0; chip < needed.size(); ++chip) {
    const int64_t host = slice.host_of(static_cast<int64_t>(chip)), by_all = used[host];
    limits[chip] = {.bytes = std::max<int64_t>(0, machine - (by_all - needed[chip])),
                    .machine_bytes = machine,
                    .machine_needed = by_all,
                    .machine_snapshot = snapshot.contains(host) ? snapshot.at(host) : 0};
  }
  return limits;
}

/// What the hosts of devices keep beside them, of the one that has least left. Hosts that are their chips' memory have
/// it with theirs.
void add_host_bytes(FitReport& report, const compile::Compiled& compiled, const hw::Slice& slice, const Hosts& hosts) {
  if (hw::device_of(slice.chip).kind == hw::ChipKind::host) return;
  const std::vector<int64_t> host_of = host_of_chips(compiled.mesh, slice, hosts);
  std::map<int64_t, memory::HostFit> kept;  // by host
  for (int64_t chip = 0; chip < compiled.mesh.chips(); ++chip) {
    const int64_t host = host_of[static_cast<size_t>(chip)];
    const int64_t free = hosts.all.empty() ? INT64_MAX : hosts.all[static_cast<size_t>(host)].bytes;
    memory::HostFit& fit = kept.try_emplace(host, memory::HostFit{.limit_bytes = free, .chip = chip}).first->second;
    const memory::AwayBytes away = compiled.programs_of(chip).memory.of_host();
    fit.offloaded_bytes += away.bytes;
    fit.activation_bytes += away.activation_bytes;
  }
  if (hosts.keep_snapshot)
    for (const auto& [host, bytes] : snapshot_by_host(compiled, host_of)) kept[host].snapshot_bytes = bytes;
  const auto& [host, worst] = *std::ranges::min_element(
      kept, {}, [](const auto& each) { return each.second.limit_bytes - each.second.needed_bytes(); });
  report.host_offloaded = worst.offloaded_bytes;
  report.host_activations = worst.activation_bytes;
  report.host_snapshot = worst.snapshot_bytes;
  report.host_chip = worst.chip;
  if (hosts.all.empty()) return;
  report.host_limit = worst.limit_bytes;
  report.host_name = hosts.all[static_cast<size_t>(host)].name;
}

/// Measurements of the lane are of what was alive: where they say more than the rule expects, as much more is reserved.
std::optional<ReservedRange> raised(std::optional<ReservedRange> reserved, int64_t corrected,
                                    const PlanCorrection& correction) {
  if (!reserved || correction.of_parts.samples == 0) return reserved;
  const double factor = std::max(1.0, static_cast<double>(corrected) / static_cast<double>(reserved->alive));
  for (int64_t* bytes : {&reserved->least, &reserved->expected, &reserved->most, &reserved->alive})
    *bytes = std::llround(factor * static_cast<double>(*bytes));
  return reserved;
}

}  // namespace

std::string_view fit_verdict_name(FitVerdict verdict) {
  switch (verdict) {
    case FitVerdict::fits:
      return "fits";
    case FitVerdict::close:
      return "close";
    case FitVerdict::does_not_fit:
      return "does not fit";
  }
  return "";
}

int64_t ChipGroup::least_needed() const {
  if (reserved) return reserved->least + reserved->least_code;
  return std::max<int64_t>(state, std::llround(gaps_least * static_cast<double>(corrected))) + code;
}

int64_t ChipGroup::most_needed() const {
  return reserved ? reserved->most + reserved->code : std::llround(gaps_most * static_cast<double>(corrected)) + code;
}

bool ChipGroup::may_fit() const {
  if (shares_machine || !limit) return free_bytes().value_or(0) >= 0;
  return least_needed() <= *limit;
}

FitVerdict ChipGroup::verdict() const {
  if (!may_fit()) return FitVerdict::does_not_fit;
  const bool may_overflow = limit && has_range() && most_needed() > *limit;
  return may_overflow ? FitVerdict::close : FitVerdict::fits;
}

FitVerdict FitReport::verdict() const {
  FitVerdict found = fits_host() ? FitVerdict::fits : FitVerdict::does_not_fit;
  for (const ChipGroup& group : groups) found = std::max(found, group.verdict());
  return found;
}

std::string needed_text(const ChipGroup& group) {
  using memory::human_bytes;
  if (!group.has_range()) return human_bytes(group.needed());
  const std::string range = human_bytes(group.least_needed()) + " to " + human_bytes(group.most_needed());
  return fmt::format("{} ({})", human_bytes(group.needed()), range);
}

std::string limit_text(const ChipGroup& group) {
  if (group.shares_machine && !group.may_fit()) return memory::human_bytes(group.machine_bytes) + " of this machine";
  return memory::human_bytes(group.limit.value());
}

std::string deciding_command(const hw::Slice& slice) {
  const bool is_tpu = slice.chip.kind == hw::ChipKind::tpu;
  return "megacpp compile with --backend xla " + (is_tpu ? "--target " + slice.name : "where " + slice.name + " is") +
         " decides";
}

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
                     const PlanCorrection& correction, const Hosts& hosts,
                     const std::optional<ReservedRange>& reserved) {
  const hw::Chip device = hw::device_of(slice.chip);
  const int64_t code = reserved ? reserved->code : code_bytes(device);
  std::vector<int64_t> corrected;                    // by stage
  std::vector<std::optional<ReservedRange>> ranges;  // likewise
  for (const compile::StagePrograms& stage : compiled.stages) {
    corrected.push_back(corrected_bytes(stage.memory, correction));
    ranges.push_back(raised(reserved, corrected.back(), correction));
  }
  std::vector<int64_t> needed;  // by chip
  for (int64_t chip = 0; chip < compiled.mesh.chips(); ++chip) {
    const size_t stage = compiled.stage_of(chip);
    needed.push_back(ranges[stage] ? ranges[stage]->needed() : corrected[stage] + code);
  }
  std::map<int64_t, int64_t> snapshot;  // by machine of the slice
  if (hosts.keep_snapshot) snapshot = snapshot_by_host(compiled, host_of_chips(compiled.mesh, slice, {}));
  const std::vector<HardwareLimit> of_hardware = hardware_limits(slice, needed, snapshot);
  std::map<std::tuple<size_t, bool, HardwareLimit>, ChipGroup> groups;  // by stage, whose limit, limit
  for (size_t chip = 0; chip < needed.size(); ++chip) {
    const int64_t index = static_cast<int64_t>(chip), own = limits.empty() ? 0 : limits[chip];
    const size_t stage = compiled.stage_of(index);
    const HardwareLimit limit = own > 0 ? HardwareLimit{.bytes = own} : of_hardware[chip];
    const auto [at, is_new] = groups.try_emplace({stage, own > 0, limit});
    if (is_new)
      at->second = {.stage = stage,
                    .chip = index,
                    .place = ir::chip_name(index, compiled.mesh),
                    .where = place_in(slice, index),
                    .planned = compiled.stages[stage].memory.total_bytes,
                    .state = compiled.stages[stage].memory.state_bytes,
                    .corrected = corrected[stage],
                    .code = code,
                    .limit = limit.bytes,
                    .gaps_least = device.kind == hw::ChipKind::tpu ? 1 : device.gaps_least,  // theirs is in ranges
                    .gaps_most = device.gaps_most,
                    .reserved = ranges[stage],
                    .own_limit = own > 0,
                    .shares_machine = own == 0 && device.kind == hw::ChipKind::host,
                    .machine_bytes = limit.machine_bytes,
                    .machine_needed = limit.machine_needed,
                    .machine_snapshot = limit.machine_snapshot};
    ++at->second.chips;
  }
  const double sum = std::accumulate(needed.begin(), needed.end(), 0.0);
  FitReport report{.hardware = slice.name,
                   .groups = {},
                   .mean = std::llround(sum / static_cast<double>(needed.size())),
                   .samples = correction.of_parts.samples,
                   .snapshot = hosts.keep_snapshot ? compile::kept_bytes(compiled) : 0};
  add_host_bytes(report, compiled, slice, hosts);
  for (auto& [key, group] : groups) report.groups.push_back(std::move(group));
  // A large chip may have more free memory and be close where a small one surely fits. Chips that share a
  // machine have the same free memory: of these the one that needs most comes first.
  std::ranges::stable_sort(report.groups, std::less<>(), [](const ChipGroup& group) {
    return std::tuple(-static_cast<int>(group.verdict()), group.free_bytes().value_or(INT64_MAX), -group.needed());
  });
  return report;
}

}  // namespace megacpp::fit
