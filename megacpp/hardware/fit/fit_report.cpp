// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/fit_report.h"

#include <algorithm>
#include <cmath>
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

/// A virtual chip may take what the others of its machine leave, if they leave anything; the snapshot that checkpoints
/// are written from is in the same memory, on each machine a part.
std::vector<ChipLimit> limits_on_machines(const hw::Slice& slice, int64_t of_chip, const std::vector<int64_t>& needed,
                                          const std::map<int64_t, int64_t>& snapshot) {
  const int64_t bytes = of_chip * slice.chip.slices.host[0];
  std::map<int64_t, SharedMachine> machines;
  for (const auto& [host, part] : snapshot) machines[host].needed = machines[host].snapshot = part;
  const auto machine_of = [&](size_t chip) -> SharedMachine& {
    return machines[slice.host_of(static_cast<int64_t>(chip))];
  };
  for (size_t chip = 0; chip < needed.size(); ++chip) machine_of(chip).needed += needed[chip];
  std::vector<ChipLimit> limits;
  for (size_t chip = 0; chip < needed.size(); ++chip) {
    SharedMachine machine = machine_of(chip);
    machine.bytes = bytes;
    const int64_t others = machine.needed - needed[chip];
    limits.push_back({.bytes = std::max<int64_t>(0, bytes - others), .machine = machine});
  }
  return limits;
}

/// By chip, of which each needs so many bytes.
std::vector<ChipLimit> limits_of(const hw::Slice& slice, const Limits& limits, const std::vector<int64_t>& needed,
                                 const std::map<int64_t, int64_t>& snapshot) {
  const std::optional<int64_t> pool = pool_of(hw::device_of(slice.chip), limits.pool_share);
  std::vector<ChipLimit> found(needed.size(), {.bytes = pool});
  if (pool && slice.chip.shares_machine_memory()) found = limits_on_machines(slice, *pool, needed, snapshot);
  for (size_t chip = 0; chip < limits.of_chips.size(); ++chip) {
    const int64_t own = limits.of_chips[chip];
    const bool is_in_pool = limits.pool_share == 1 || !pool || own <= *pool;
    if (own > 0 && is_in_pool) found[chip] = {.bytes = own, .is_recipes = true};
  }
  return found;
}

/// What the hosts of devices keep beside them, of the one that has least left. Hosts that are their chips' memory have
/// it with theirs.
void add_host_bytes(FitReport& report, const compile::Compiled& compiled, const hw::Slice& slice, const Hosts& hosts) {
  if (slice.chip.shares_machine_memory()) return;
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

std::optional<int64_t> ChipGroup::free_bytes() const {
  if (!limit.bytes) return std::nullopt;
  return limit.machine ? limit.machine->bytes - limit.machine->needed : *limit.bytes - needed();
}

FitVerdict ChipGroup::verdict() const {
  if (!limit.bytes) return FitVerdict::fits;
  const bool may_fit = limit.machine ? free_bytes() >= 0 : reservation.least <= *limit.bytes;
  if (!may_fit) return FitVerdict::does_not_fit;
  const bool may_overflow = reservation.is_range() && reservation.most > *limit.bytes;
  return may_overflow ? FitVerdict::close : FitVerdict::fits;
}

FitVerdict FitReport::verdict() const {
  FitVerdict found = fits_host() ? FitVerdict::fits : FitVerdict::does_not_fit;
  for (const ChipGroup& group : groups) found = std::max(found, group.verdict());
  return found;
}

std::string needed_text(const ChipGroup& group) {
  using memory::human_bytes;
  const Reservation& reservation = group.reservation;
  if (!reservation.is_range()) return human_bytes(group.needed());
  const std::string range = human_bytes(reservation.least) + " to " + human_bytes(reservation.most);
  return fmt::format("{} ({})", human_bytes(group.needed()), range);
}

std::string limit_text(const ChipGroup& group) {
  if (group.limit.machine && !group.may_fit())
    return memory::human_bytes(group.limit.machine->bytes) + " of this machine";
  return memory::human_bytes(group.limit.bytes.value());
}

std::optional<int64_t> pool_of(const hw::Chip& device, double pool_share) {
  if (device.usable_bytes == 0) return std::nullopt;
  return std::llround(pool_share * static_cast<double>(device.usable_bytes));
}

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

FitReport fit_report(const compile::Compiled& compiled, const hw::Slice& slice, const Limits& limits,
                     const std::vector<Reservation>& reserved, const PlanCorrection& correction, const Hosts& hosts) {
  const bool is_learnt = correction.of_parts.method != catalog::Method::none;
  std::vector<int64_t> learnt;  // by stage, what is alive
  std::vector<Reservation> reservations = reserved;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage) {
    learnt.push_back(corrected_bytes(compiled.stages[stage].memory, correction));
    if (is_learnt) reservations[stage] = corrected(reservations[stage], static_cast<double>(learnt[stage]));
  }
  std::vector<int64_t> needed;  // by chip
  for (int64_t chip = 0; chip < compiled.mesh.chips(); ++chip)
    needed.push_back(reservations[compiled.stage_of(chip)].expected);
  std::map<int64_t, int64_t> snapshot;  // by machine of the slice
  if (hosts.keep_snapshot) snapshot = snapshot_by_host(compiled, host_of_chips(compiled.mesh, slice, {}));
  const std::vector<ChipLimit> limit_of = limits_of(slice, limits, needed, snapshot);
  std::map<std::tuple<size_t, ChipLimit>, ChipGroup> groups;  // by stage and limit
  for (size_t chip = 0; chip < needed.size(); ++chip) {
    const int64_t index = static_cast<int64_t>(chip);
    const size_t stage = compiled.stage_of(index);
    const auto [at, is_new] = groups.try_emplace({stage, limit_of[chip]});
    if (is_new)
      at->second = {.stage = stage,
                    .chip = index,
                    .place = ir::chip_name(index, compiled.mesh),
                    .where = place_in(slice, index),
                    .planned = compiled.stages[stage].memory.total_bytes,
                    .corrected = learnt[stage],
                    .reservation = reservations[stage],
                    .limit = limit_of[chip]};
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
