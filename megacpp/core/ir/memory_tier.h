// SPDX-License-Identifier: Apache-2.0
// The memories that tensors of a program stand in: the device's own, where it computes, and others, from and to which
// it copies beside its work (ops/tier_copy.h). One record says what plans, predictions and reports must know of each.
// Who allocates it is the backend's matter: its target names the tiers that its devices have (schedule::Target::tiers),
// and they give addresses in each (runtime::ChipDevice).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace megacpp::ir {

/// The place of a tier in the table; those of memory_tier_list.inc have names here.
enum class Tier : uint8_t {
#define MEGACPP_MEMORY_TIER(name) name,
#include "megacpp/core/ir/memory_tier_list.inc"
#undef MEGACPP_MEMORY_TIER
};

struct MemoryTier {
  std::string_view name;    // in programs, plans and receipts: "host"
  std::string_view what;    // "pinned memory of the host"
  std::string_view link;    // of chip files, over which devices reach it: "pcie"; empty: it is their own
  int64_t alignment = 1;    // bytes: of all that stands there, where the target asks for no more
  bool is_of_host = false;  // all chips of a host share what the host has of it
};

/// All, in the order of Tier.
std::span<const MemoryTier> all_tiers();
inline const MemoryTier& record(Tier tier) { return all_tiers()[static_cast<size_t>(tier)]; }
std::optional<Tier> parse_tier(std::string_view name);

// The same for records (base/record.h).
inline std::string_view text_of(Tier tier) { return record(tier).name; }
inline bool read_text(std::string_view name, Tier& tier) {
  const std::optional<Tier> known = parse_tier(name);
  if (known) tier = *known;
  return known.has_value();
}

}  // namespace megacpp::ir
